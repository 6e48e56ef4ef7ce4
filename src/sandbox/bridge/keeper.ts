/**
 * The guest waits ten seconds for a host program that was killed, so who is inside loses what was open and no more.
 * A program that left by itself is not missed, nor is one whose folder is gone.
 */
const KEEPER_SCRIPT = `trap "" HUP INT
until "$0" "$@"; do
  [ -d "$PWD" ] || exit 0
  sleep 0.2
done`;

/** The same program behind a shell that starts it again when something kills it. No server has to be there for that. */
export function toKept(argv: readonly string[]): string[] {
  return ["/bin/sh", "-c", KEEPER_SCRIPT, ...argv];
}
