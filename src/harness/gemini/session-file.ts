/**
 * The CLI opens a session by writing to `session-<minute>-<id>`: within the minute of its birth that is the session
 * itself, which it so empties. Under a name of another minute it is safe, and what a resume then begins beside it is
 * a stub that would be taken for the session at the next one. Part of the prelude.
 */
export function keepSessionFile(): void {
  const fs = process.getBuiltinModule("node:fs");
  const resumed = process.env["SLUICE_RESUME"]?.slice(0, 8);
  const root = `${process.env["HOME"]}/.gemini/tmp`;
  if (!resumed || !fs.existsSync(root)) return;
  for (const project of fs.readdirSync(root)) {
    const chats = `${root}/${project}/chats`;
    if (!fs.existsSync(chats)) continue;
    const sizeOf = (name: string): number => fs.statSync(`${chats}/${name}`).size;
    const names = fs.readdirSync(chats).filter((name) => name.endsWith(`-${resumed}.jsonl`));
    // The whole conversation is the longest of them: a resume goes on writing where it was read from.
    const [whole, ...stubs] = names.toSorted((a, b) => sizeOf(b) - sizeOf(a));
    for (const stub of stubs) fs.rmSync(`${chats}/${stub}`);
    if (whole?.startsWith("session-2"))
      fs.renameSync(`${chats}/${whole}`, `${chats}/session-0${whole.slice("session-2".length)}`);
  }
}
