/**
 * The CLI opens a session by writing to `session-<minute>-<id>`: within the minute of its birth that is the session
 * itself, which it so empties. Under a name of another minute it is safe. Part of the prelude.
 */
export function keepSessionFile(): void {
  const fs = process.getBuiltinModule("node:fs");
  const resumed = process.env["SLUICE_RESUME"]?.slice(0, 8);
  const root = `${process.env["HOME"]}/.gemini/tmp`;
  if (!resumed || !fs.existsSync(root)) return;
  for (const project of fs.readdirSync(root)) {
    const chats = `${root}/${project}/chats`;
    if (!fs.existsSync(chats)) continue;
    for (const name of fs.readdirSync(chats)) {
      if (!name.startsWith("session-2") || !name.endsWith(`-${resumed}.jsonl`)) continue;
      fs.renameSync(`${chats}/${name}`, `${chats}/session-0${name.slice("session-2".length)}`);
    }
  }
}
