import type { ChildProcess } from "node:child_process";
import { once } from "node:events";
import { createInterface } from "node:readline";

/** The address that a server prints when it listens. */
export async function listeningUrl(child: ChildProcess): Promise<string> {
  if (!child.stdout) throw new Error("the server has no output");
  const lines = createInterface({ input: child.stdout });
  const exited = once(child, "exit").then(() => {
    throw new Error("the server has ended before it was ready");
  });
  exited.catch(() => {});
  const [line] = (await Promise.race([once(lines, "line"), exited])) as [string];
  const url = /http:\/\/\S+/.exec(line)?.[0];
  if (url === undefined) throw new Error(`the server said: ${line}`);
  return url;
}
