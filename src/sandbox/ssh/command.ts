import type { Client } from "ssh2";

/** The most of a command's output that is kept: the machine may be hostile. */
const MOST_CHARS = 100_000;

/** Starts the runner of this hash, or tells what is missing. The single quotes around the script allow none in it. */
export function toUpCommand(hash: string): string {
  const script = [
    `umask 077`,
    `n=$(command -v node) || { echo no-node; exit 0; }`,
    `"$n" -e "process.exit(parseInt(process.versions.node) >= 20 ? 0 : 1)" || { echo old-node; exit 0; }`,
    `f="$HOME/.sluice/runner/bin/${hash}.cjs"`,
    `[ -f "$f" ] || { echo need; exit 0; }`,
    `exec "$n" "$f" up "$HOME/.sluice/runner"`,
  ];
  return `exec /bin/sh -lc '${script.join("; ")}'`;
}

/** Writes its input to the runner's file of this hash. */
export function toPutCommand(hash: string): string {
  const file = `"$d/${hash}.cjs"`;
  const script = `umask 077; d="$HOME/.sluice/runner/bin"; mkdir -p "$d" && cat > ${file}.$$ && mv ${file}.$$ ${file}`;
  return `exec /bin/sh -c '${script}'`;
}

export interface RunResult {
  readonly code: number;
  readonly stdout: string;
  readonly stderr: string;
}

/** Runs a command on the machine to its end. */
export function run(client: Client, command: string, input?: Buffer): Promise<RunResult> {
  return new Promise((resolve, reject) => {
    client.exec(command, (error, stream) => {
      if (error) return reject(error);
      let stdout = "";
      let stderr = "";
      let code = -1;
      stream.on(
        "data",
        (chunk: Buffer) => (stdout = `${stdout}${chunk.toString("utf8")}`.slice(-MOST_CHARS)),
      );
      stream.stderr.on(
        "data",
        (chunk: Buffer) => (stderr = `${stderr}${chunk.toString("utf8")}`.slice(-MOST_CHARS)),
      );
      stream.on("exit", (status: number | null) => (code = status ?? -1));
      stream.on("close", () => resolve({ code, stdout, stderr }));
      stream.on("error", reject);
      stream.end(input);
    });
  });
}
