import type { Interface } from "node:readline";

/**
 * Lets Ctrl-Z suspend this process, and shows the prompt again when a shell continues it. Node's own way leaves the
 * input paused, and the terminal without its mode where no shell can suspend the process.
 */
export function suspendAtCtrlZ(
  lines: Interface,
  { before, after }: { before?: () => void; after?: () => void } = {},
): void {
  lines.on("SIGTSTP", () => {
    before?.();
    process.stdin.setRawMode(false);
    // The process stops within this call, and goes on from here.
    process.kill(process.pid, "SIGTSTP");
    process.stdin.setRawMode(true);
    after?.();
    lines.prompt(true);
  });
}
