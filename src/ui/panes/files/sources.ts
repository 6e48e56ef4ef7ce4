import { client, pathOf, transport } from "../../core/api.ts";
import type { EventData, SluiceEvent } from "../../../contract/index.ts";
import type { SessionView } from "../../core/session-view.ts";
import type { EventText, RowView } from "../../log/protocol.ts";

export interface Entry {
  readonly path: string;
  readonly name: string;
  readonly kind: "file" | "directory" | "symlink" | "other";
  readonly size: number;
  /** Of a link. */
  readonly target?: string;
}

/** A place to read files from. None of them starts a sandbox. */
export interface Source {
  /** Another text for other files. */
  readonly key: string;
  readonly words: string;
  list(path: string | undefined, signal: AbortSignal): Promise<Entry[]>;
  read(path: string, signal?: AbortSignal): Promise<Response>;
}

interface TreePage {
  readonly entries: readonly {
    path: string;
    name: string;
    entryType: string;
    size: number;
    target?: string;
  }[];
  readonly next?: string;
}

/** At most this many entries of one folder are listed. */
export const MAX_ENTRIES = 20_000;

/** The workspace as it is now; the server reads it beside the running agent. */
export function liveSource(session: string): Source {
  return {
    key: "live",
    words: "The workspace as it is now",
    async list(path, signal) {
      const entries = await client.fs.entries(session, path ?? ".", { signal });
      return entries.map(({ path: place, name, size, entryType: kind }) => ({
        path: place,
        name,
        size,
        kind,
      }));
    },
    read: (path, signal) => transport.call("/v1/fs/file", { query: { session, path }, signal }),
  };
}

/** The files of a checkpoint, read in its storage. */
export function checkpointSource(session: string, id: string, words: string): Source {
  const base = pathOf(session, `checkpoints/${encodeURIComponent(id)}`);
  return {
    key: id,
    words,
    async list(path, signal) {
      const entries: Entry[] = [];
      let cursor: string | undefined;
      do {
        const page: TreePage = await transport.json(`${base}/tree`, {
          query: { path: path ?? ".", cursor },
          signal,
        });
        for (const { entryType, ...rest } of page.entries) entries.push({ ...rest, kind: toKind(entryType) });
        cursor = page.next;
      } while (cursor !== undefined && entries.length < MAX_ENTRIES);
      return entries;
    },
    read: (path, signal) => transport.call(`${base}/files`, { query: { path }, signal }),
  };
}

function toKind(type: string): Entry["kind"] {
  return type === "file" || type === "directory" || type === "symlink" ? type : "other";
}

/** The unified diff of two checkpoints. */
export async function readDiff(
  session: string,
  from: string,
  to: string,
  signal: AbortSignal,
): Promise<string> {
  const path = pathOf(session, `checkpoints/${encodeURIComponent(from)}/diff/${encodeURIComponent(to)}`);
  return (await transport.call(path, { signal })).text();
}

export interface Change {
  readonly key: string;
  readonly path: string;
  readonly diff: string;
  readonly sequence?: number;
}

/** The newest diff of the whole workspace that the log has at a moment. */
export async function readWholeDiff(
  view: SessionView,
  at: number,
): Promise<{ changes: Change[]; sequence: number }> {
  const [found] = await view.call("pick", { types: ["workspace.diffed"], from: 1, to: at, last: true });
  if (!found) return { changes: [], sequence: 0 };
  const { diff } = dataOf<"workspace.diffed">(found);
  return { changes: splitDiff(diff), sequence: found.sequence };
}

export interface TurnChanges {
  readonly changes: Change[];
  /** Files that changed without a diff of their own, such as those that a command wrote. */
  readonly others: { type: string; path: string }[];
}

/** The changes of one turn up to a moment: the edits that its tools reported, and the other files that changed. */
export async function readTurnChanges(
  view: SessionView,
  range: { first: number; at: number },
): Promise<TurnChanges> {
  const { first, at } = range;
  const started = await view.call("pick", { types: ["item.started"], from: first, to: at });
  const calls = started.filter(({ body }) => body.includes('"tool_call"')).map(({ sequence }) => sequence);
  const rows: RowView[] = await view.call("rowsAt", { at, sequences: calls });
  const changes = rows.flatMap(({ diffs = [], sequence }) =>
    diffs.map(({ path, diff }, index) => ({ key: `${sequence}:${index}`, path, diff, sequence })),
  );
  const others = new Map<string, string>();
  for (const event of await view.call("pick", { types: ["file.changed"], from: first, to: at })) {
    const { type, path } = dataOf<"file.changed">(event);
    if (!changes.some((change) => samePath(change.path, path))) others.set(path, type);
  }
  return { changes, others: [...others].map(([path, type]) => ({ path, type })) };
}

function samePath(one: string, other: string): boolean {
  return one === other || one.endsWith(`/${other}`) || other.endsWith(`/${one}`);
}

/** One change for each file of a unified diff. */
export function splitDiff(diff: string): Change[] {
  const isGit = /^diff --git /m.test(diff);
  const parts = diff.split(isGit ? /^(?=diff --git )/m : /^(?=--- )/m).filter((part) => part.trim() !== "");
  return parts.map((part, index) => ({ key: `${index}`, path: pathIn(part) || "changes", diff: part }));
}

function pathIn(part: string): string {
  const after = /^\+\+\+ (?:b\/)?([^\t\n]+)/m.exec(part)?.[1];
  if (after !== undefined && after !== "/dev/null") return after;
  const before = /^--- (?:a\/)?([^\t\n]+)/m.exec(part)?.[1];
  return before ?? /^diff --git a\/(.+?) b\//m.exec(part)?.[1] ?? "";
}

function dataOf<Type extends SluiceEvent["type"]>({ body }: EventText): EventData<Type> {
  return (JSON.parse(body) as { data: EventData<Type> }).data;
}
