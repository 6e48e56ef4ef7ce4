import { realpathSync } from "node:fs";
import { delimiter, isAbsolute, join } from "node:path";
import { SluiceError, type Launch } from "../../contract/index.ts";
import type { FileChange } from "../watch/changes.ts";
import { isRunnable } from "./programs.ts";
import type { RunnerSandboxes } from "./sandboxes.ts";

type Body = Readonly<Record<string, unknown>>;
type Operation = (
  sandboxes: RunnerSandboxes,
  id: string,
  body: Body,
  signal: AbortSignal,
) => Promise<unknown>;

const text = (body: Body, name: string): string => {
  const value = body[name];
  if (typeof value === "string") return value;
  throw new SluiceError("invalid_request", `The field ${name} has to be a text.`);
};
const number = (body: Body, name: string): number => {
  const value = body[name];
  if (typeof value === "number" && Number.isSafeInteger(value) && value >= 0) return value;
  throw new SluiceError("invalid_request", `The field ${name} has to be a whole number.`);
};
const spoolOf = (sandboxes: RunnerSandboxes, id: string, body: Body): ReturnType<RunnerSandboxes["spool"]> =>
  sandboxes.spool(id, text(body, "name"));

/** The operations on a sandbox with a JSON body and a JSON answer, by name: `POST /v1/s/{id}/{name}`. */
export const OPERATIONS: Readonly<Record<string, Operation>> = {
  facts: (sandboxes, id) => sandboxes.facts(id),
  destroy: (sandboxes, id) => sandboxes.destroy(id),
  start: (sandboxes, id, body) =>
    sandboxes.start(id, {
      name: text(body, "name"),
      launch: body["launch"] as Launch,
      streams: body["streams"] === "named" ? "named" : "private",
      ...(body["input"] === undefined ? {} : { input: Buffer.from(text(body, "input"), "base64") }),
    }),
  state: async (sandboxes, id, body) => {
    const spool = await spoolOf(sandboxes, id, body);
    const [pid, exit, size, length, errorLength, isAlive] = await Promise.all([
      spool.pid(),
      spool.exit(),
      spool.size(),
      spool.length(),
      spool.errorLength(),
      spool.isAlive(),
    ]);
    return { pid, exit, size, length, errorLength, isAlive };
  },
  send: async (sandboxes, id, body) => {
    const spool = await spoolOf(sandboxes, id, body);
    return spool.send({ id: text(body, "id"), at: number(body, "at"), text: text(body, "text") });
  },
  sent: async (sandboxes, id, body) => (await spoolOf(sandboxes, id, body)).sent(),
  repair: async (sandboxes, id, body) => (await spoolOf(sandboxes, id, body)).repair(),
  "close-input": async (sandboxes, id, body) => (await spoolOf(sandboxes, id, body)).closeInput(),
  killed: async (sandboxes, id, body) => (await spoolOf(sandboxes, id, body)).killed(),
  copied: async (sandboxes, id, body) => (await spoolOf(sandboxes, id, body)).copied(),
  stderr: async (sandboxes, id, body) =>
    (await spoolOf(sandboxes, id, body)).stderrLines(Math.min(number(body, "reach"), 1024 * 1024)),
  read: async (sandboxes, id, body) => {
    const range = { from: number(body, "from"), most: Math.min(number(body, "most"), 16 * 1024 * 1024) };
    const stream = body["stream"] === "err" ? "err" : "out";
    return (await (await spoolOf(sandboxes, id, body)).read(stream, range)).toString("base64");
  },
  forget: async (sandboxes, id, body) => (await spoolOf(sandboxes, id, body)).forget(number(body, "offset")),
  remove: (sandboxes, id, body) => sandboxes.remove(id, text(body, "name")),
  signal: async (sandboxes, id, body) => {
    const sandbox = await sandboxes.demand(id);
    await sandbox.processes.signal(text(body, "name"), text(body, "signal") as NodeJS.Signals);
  },
  kill: async (sandboxes, id) => (await sandboxes.demand(id)).killAll(),
  verdict: async (sandboxes, id) => (await sandboxes.demand(id)).verdict?.(),
  pause: async (sandboxes, id) => (await sandboxes.demand(id)).pause?.(),
  resume: async (sandboxes, id) => (await sandboxes.demand(id)).resume?.(),
  exec: async (sandboxes, id, body, signal) => {
    const { command: _, input, ...options } = body as { command?: string; input?: string };
    const given = input === undefined ? {} : { input: Buffer.from(input, "base64") };
    return (await sandboxes.demand(id)).exec(text(body, "command"), { ...options, ...given, signal });
  },
  list: async (sandboxes, id, body) => (await sandboxes.demand(id)).files.list(text(body, "path")),
  stat: async (sandboxes, id, body) => (await sandboxes.demand(id)).files.stat(text(body, "path")),
  mkdir: async (sandboxes, id, body) => (await sandboxes.demand(id)).files.mkdir(text(body, "path")),
  move: async (sandboxes, id, body) => {
    const { files } = await sandboxes.demand(id);
    return files.move(text(body, "from"), text(body, "to"), { overwrite: body["overwrite"] === true });
  },
  "remove-file": async (sandboxes, id, body) => {
    const { files } = await sandboxes.demand(id);
    return files.remove(text(body, "path"), { recursive: body["recursive"] === true });
  },
  symlink: async (sandboxes, id, body) =>
    (await sandboxes.demand(id)).files.symlink?.(text(body, "path"), text(body, "target")),
  watch: async (sandboxes, id) => sandboxes.trees.watch(await sandboxes.demand(id)),
  "watch-begin": async ({ trees }, id, body) =>
    trees.watcher(id, body["watch"]).begin((body["reported"] ?? []) as FileChange[]),
  "watch-take": ({ trees }, id, body, signal) =>
    trees
      .watcher(id, body["watch"])
      .take(number(body, "from"), AbortSignal.any([signal, AbortSignal.timeout(POLL_MS)])),
  "watch-flush": ({ trees }, id, body) => trees.watcher(id, body["watch"]).flush(),
  "watch-remember": ({ trees }, id, body) =>
    trees.watcher(id, body["watch"]).remember(number(body, "head"), number(body, "seen")),
  "watch-stop": ({ trees }, id) => trees.stop(id),
  diff: async (sandboxes, id) => sandboxes.trees.diff(await sandboxes.demand(id)),
  "checkpoint-take": async (sandboxes, id, body) =>
    sandboxes.trees.take(await sandboxes.demand(id), body["base"]),
  "checkpoint-restore": async (sandboxes, id, body) =>
    sandboxes.trees.restore(await sandboxes.demand(id), text(body, "hash")),
  "checkpoint-drop": ({ trees }, id) => trees.drop(id),
  listen: async (sandboxes, id, body) => {
    await sandboxes.demand(id);
    return sandboxes.listeners.port(id, text(body, "name"));
  },
};

/** How long a call waits for changes: less than the silence after which its caller takes the connection for dead. */
const POLL_MS = 20_000;

/** The real paths of programs on the runner's search path. */
export function findPrograms(names: readonly unknown[]): Record<string, string> {
  const folders = (process.env["PATH"] ?? "").split(delimiter).filter((folder) => isAbsolute(folder));
  const found: Record<string, string> = {};
  for (const name of names.slice(0, 100)) {
    if (typeof name !== "string" || name === "") continue;
    const paths = isAbsolute(name)
      ? [name]
      : name.includes("/")
        ? []
        : folders.map((folder) => join(folder, name));
    const path = paths.find(isRunnable);
    if (path !== undefined) found[name] = realpathSync(path);
  }
  return found;
}
