import { createWatcher } from "../../../src/sandbox/watch/watcher.ts";

/** Watches the given folder and prints its changes, one JSON per line, until its input ends. */
const watcher = createWatcher({
  folder: process.argv[2] ?? "",
  onError: (warning) => print({ warning }),
});
await watcher.ready;
print({ ready: true });
const controller = new AbortController();
process.stdin.resume().once("end", () => controller.abort());
while (!controller.signal.aborted) {
  await watcher.moved({ signal: controller.signal }).catch(() => {});
  for (const { type, path } of watcher.take()) print({ type, path });
}
await watcher.flush();
for (const { type, path } of watcher.take()) print({ type, path });
await watcher.stop();
print({ snapshot: watcher.snapshot().version });

function print(line: unknown): void {
  process.stdout.write(`${JSON.stringify(line)}\n`);
}
