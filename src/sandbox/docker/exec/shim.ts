/**
 * What stands before a command in the container. The engine starts it as the leader of a session of its own, so the
 * pid that it says first, in a line on stdout, is also the process group to signal; 0 says that there is no such program.
 * A program that the image has elsewhere than the host is looked for by its name. The folder is the first argument:
 * only the user of the sandbox may walk there.
 */
const FIND = `cd "$1" || exit
shift
p=$1
command -v "$p" > /dev/null 2>&1 || p=\${1##*/}
command -v "$p" > /dev/null 2>&1 || { echo 0; exit 127; }
shift
echo $$
`;

/** The command takes the place of the shim, so that its exit code and its signals are its own. */
export function toAgentArgv(argv: readonly string[], cwd: string): string[] {
  return ["/bin/sh", "-c", `${FIND}exec "$p" "$@"`, "sh", cwd, ...argv];
}

/**
 * Here the shim stays, and says on both outputs when the command has ended: an engine keeps the streams open as long as
 * anything that the command left in the background holds them.
 */
export function toCommandArgv(command: string, marker: string): string[] {
  // The shell's own remark on a command that a signal ended is not the command's.
  const script = `echo $$
exec 3>&2 2> /dev/null
(exec 2>&3 3>&-; exec /bin/sh -c "$1")
s=$?
echo "$2 $s"
echo "$2 $s" >&3
exit $s`;
  return ["/bin/sh", "-c", script, "sh", command, marker];
}

/** Signals a whole group, and says what came of it: the pid must be one that a shim has said. */
export function toSignalArgv(pid: number, signal: NodeJS.Signals): string[] {
  return ["/bin/sh", "-c", 'kill -s "$1" -- "-$2"; echo $?', "sh", signal.slice("SIG".length), String(pid)];
}
