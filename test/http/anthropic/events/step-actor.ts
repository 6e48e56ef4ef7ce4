import Anthropic, { APIConnectionError, toFile } from "@anthropic-ai/sdk";
import { collect } from "../anthropic-bench.ts";
import { type Event, history, idsOf, isEnd, message, ofType, text } from "../session-bench.ts";

/** A client of one session, with the unmodified SDK. */
export class Actor {
  readonly beta: Anthropic["beta"];
  readonly name: string;
  /** The actor's values by name. */
  readonly held: Record<string, string> = {};

  constructor(beta: Anthropic["beta"], name: string) {
    this.beta = beta;
    this.name = name;
  }

  get id(): string {
    return this.held["session"] ?? "";
  }

  send(...events: object[]): Promise<unknown> {
    return this.beta.sessions.events.send(this.id, { events: events as never });
  }

  say(...steps: unknown[]): Promise<unknown> {
    return this.send(message(text(...steps)));
  }

  history(): Promise<Event[]> {
    return history(this, this.id);
  }

  /** The events until the condition holds, from the list and from an earlier stream. */
  async until(isSo: (events: readonly Event[]) => boolean): Promise<Event[]> {
    for (;;) {
      const told = await this.#watch(isSo).catch((error: unknown) => {
        if (isCut(error)) return undefined;
        throw error;
      });
      if (told) return told;
      await new Promise((resolve) => setTimeout(resolve, 50));
    }
  }

  /** Undefined if the stream ended before. */
  async #watch(isSo: (events: readonly Event[]) => boolean): Promise<Event[] | undefined> {
    const stream = await this.beta.sessions.events.stream(this.id);
    try {
      const told = await this.history();
      if (isSo(told)) return told;
      const known = new Set(idsOf(told.filter(isProcessed)));
      for await (const event of stream) {
        if (!isProcessed(event) || known.has(idsOf([event])[0] ?? "")) continue;
        told.push(event);
        if (isSo(told)) return told;
      }
      return undefined;
    } finally {
      stream.controller.abort();
    }
  }

  /** Until this count of turns has ended. */
  ended(turns = 1): Promise<Event[]> {
    return this.until((events) => events.filter(isEnd).length >= turns);
  }

  /** Until a request is open; returns the newest one. */
  async asked(): Promise<string> {
    const events = await this.until((told) => lastAsked(told) !== undefined);
    return lastAsked(events) ?? "";
  }

  /** Releases a script at its step `GATE`. */
  async openGate(): Promise<void> {
    const file = await this.beta.files.upload({ file: await toFile(Buffer.from("go"), `${this.name}.go`) });
    const mount_path = "/home/user/workspace/go";
    await this.beta.sessions.resources.add(this.id, { type: "file", file_id: file.id, mount_path });
  }

  said(events: readonly Event[], words: string): boolean {
    return JSON.stringify(ofType(events, "agent.message")).includes(words);
  }

  /** The final state without ids and times. */
  async outcome(): Promise<string> {
    const gone = await this.beta.sessions.retrieve(this.id).then(
      () => undefined,
      (error: { status?: number }) => `gone: ${error.status}`,
    );
    if (gone !== undefined) return gone;
    const { title, metadata, status, archived_at, resources, usage } = await this.beta.sessions.retrieve(
      this.id,
    );
    const files = (await collect(this.beta.files.list({ scope_id: this.id }))).map(
      ({ filename }) => filename,
    );
    const session = { title, metadata, status, archived_at, resources, usage, files: files.toSorted() };
    return toComparable({ session, events: await this.history() });
  }
}

/** A step of a script that waits for the actor's release. */
export const GATE = { shell: "until [ -e go ]; do sleep 0.05; done; rm go" };

export function isProcessed(event: Event): boolean {
  return (event as { processed_at?: string | null }).processed_at !== null;
}

function lastAsked(events: readonly Event[]): string | undefined {
  const last = events.findLast(({ type }) => type.startsWith("session.status_"));
  if (last?.type !== "session.status_idle" || last.stop_reason.type !== "requires_action") return undefined;
  return last.stop_reason.event_ids[0];
}

function isCut(error: unknown): boolean {
  return (
    error instanceof APIConnectionError || (error instanceof TypeError && error.message === "terminated")
  );
}

/** Numbers ids by order and drops times. */
function toComparable(value: unknown): string {
  const numbers = new Map<string, string>();
  return JSON.stringify(value, null, 1)
    .replaceAll(/\b(sevt|file|sesrsc|sesn|agent|env)_[0-9A-Za-z_]+/g, (id: string, kind: string) => {
      const number = numbers.get(id) ?? `${kind}_${numbers.size}`;
      numbers.set(id, number);
      return number;
    })
    .replaceAll(/\d{4}-\d\d-\d\dT[\d:.]+Z/g, "a time");
}
