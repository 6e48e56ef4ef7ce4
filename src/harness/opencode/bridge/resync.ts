import type { Api } from "./api.ts";
import { print } from "./output.ts";

interface Message {
  readonly info: {
    readonly id: string;
    readonly time: { readonly created: number; readonly completed?: number };
  };
  readonly parts: readonly unknown[];
}

interface NotedEvent {
  readonly type?: string;
  readonly properties?: {
    readonly info?: {
      readonly id?: string;
      readonly parentID?: string;
      readonly role?: string;
      readonly time?: { readonly completed?: number };
    };
  };
}

const PATIENCE_MS = 30_000;

/** What of the session has gone out already, as far as it matters when the stream of events had a hole. */
export class Seen {
  session = "";
  readonly #since = Date.now();
  readonly #children = new Set<string>();
  readonly #finished = new Set<string>();

  /** Parses only the few kinds that count: most events are deltas. */
  note(data: string): void {
    if (!data.includes('"session.created"') && !data.includes('"message.updated"')) return;
    const { type, properties } = JSON.parse(data) as NotedEvent;
    const info = properties?.info;
    if (info?.id === undefined) return;
    if (type === "session.created" && info.parentID !== undefined) this.#children.add(info.id);
    // A user's message is whole from the beginning.
    const isWhole = info.role === "user" || info.time?.completed !== undefined;
    if (type === "message.updated" && isWhole) this.#finished.add(info.id);
  }

  get sessions(): string[] {
    return [this.session, ...this.#children];
  }

  /** Whether there may be more of a message than was seen. */
  isOpen({ info }: Message): boolean {
    return info.time.created >= this.#since && !this.#finished.has(info.id);
  }
}

/** Says what the lost events would have said: each message and part as it is now, what is asked, and whether it still works. */
export async function catchUp(api: Api, seen: Seen): Promise<void> {
  const signal = AbortSignal.timeout(PATIENCE_MS);
  for (const child of await readList(api, `/session/${seen.session}/children`, { signal })) {
    tell("session.created", { info: child });
  }
  for (const session of seen.sessions) {
    for (const message of (await readList(api, `/session/${session}/message`, { signal })) as Message[]) {
      if (!seen.isOpen(message)) continue;
      // Its end is told last: a message that is complete has no more parts.
      const { completed: _, ...time } = message.info.time;
      tell("message.updated", { sessionID: session, info: { ...message.info, time } });
      for (const part of message.parts) tell("message.part.updated", { sessionID: session, part });
      seen.note(tell("message.updated", { sessionID: session, info: message.info }));
    }
  }
  for (const ask of await readList(api, "/permission", { signal })) tell("permission.asked", ask);
  for (const ask of await readList(api, "/question", { signal })) tell("question.asked", ask);
  const statuses = (await api.read("/session/status", { signal })) as Record<string, unknown>;
  const status = statuses[seen.session] ?? { type: "idle" };
  tell("session.status", { sessionID: seen.session, status });
}

async function readList(api: Api, path: string, options: { signal: AbortSignal }): Promise<unknown[]> {
  const list = await api.read(path, options);
  return Array.isArray(list) ? list : [];
}

function tell(type: string, properties: unknown): string {
  const line = JSON.stringify({ type, properties });
  print(line);
  return line;
}
