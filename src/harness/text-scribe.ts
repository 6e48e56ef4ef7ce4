import type { EventError, SpoolLine } from "../contract/index.ts";
import type { HarnessFact } from "./port.ts";
import {
  emptyTranscript,
  type IdKind,
  messageItem,
  type OpenText,
  type Origin,
  own,
  type TextKind,
  toId,
  type Transcript,
  without,
} from "./transcript.ts";
import { addCut, COLLECTED_LENGTH } from "../text/long-text.ts";
import { unparsedFact } from "./unparsed.ts";

/**
 * The part of the scribe that gives out ids, collects facts, and writes texts and thoughts. A text that was cut and
 * streamed again is shown once.
 */
export class TextScribe<Ask> {
  readonly facts: HarnessFact[] = [];
  #transcript: Transcript<Ask>;

  constructor(transcript: Transcript<Ask>) {
    this.#transcript = transcript;
  }

  get transcript(): Transcript<Ask> {
    return this.#transcript;
  }

  /** Adds any fact. A fact of a sub-agent gets its parent. */
  add(fact: HarnessFact, origin: Origin = {}): void {
    this.put(fact, this.itemOf(origin));
  }

  session(native: string, metadata?: Readonly<Record<string, unknown>>): void {
    const data = metadata === undefined ? {} : { metadata };
    this.facts.push({ type: "session.started", native_session_id: native, data });
  }

  error({ code, message }: EventError, origin: Origin & { details?: unknown } = {}): void {
    const details = origin.details === undefined ? {} : { details: origin.details };
    this.add({ type: "error", data: { code, message, ...details } }, origin);
  }

  unparsed(line: SpoolLine, error: string): void {
    this.facts.push(unparsedFact(line, error));
  }

  startText(native: string, options: Origin & { kind?: TextKind } = {}): boolean {
    const { texts, torn } = this.transcript;
    if (own(texts, native)) return false;
    const kind = options.kind ?? "text";
    const parent = this.itemOf(options);
    if (torn && torn.text.kind === kind && torn.text.parent === parent) {
      const replay = shownOf(torn.text);
      this.forgetTorn();
      this.#keepText(native, { ...torn.text, text: "", replay });
      return true;
    }
    this.dropTorn();
    this.#openText(native, { kind, parent });
    return true;
  }

  /** More of a text or a thought. */
  delta(native: string, delta: string): boolean {
    const open = own(this.transcript.texts, native);
    if (!open) return false;
    if (open.replay !== undefined) return this.#replayed(native, open, delta);
    this.#grow(native, open, delta);
    if (delta !== "") this.putDelta(open.item, native, delta, open.parent);
    return true;
  }

  /** Ends a text; `text` is the whole text, where the CLI repeats it. */
  endText(native: string, text?: string, options: { failed?: boolean } = {}): boolean {
    let open = own(this.transcript.texts, native);
    if (!open) return false;
    const whole = text ?? open.text;
    // The deltas must add up to the text, so its rest becomes a delta.
    if (!open.full && whole.length > open.text.length && whole.startsWith(open.text)) {
      this.delta(native, whole.slice(open.text.length));
      open = own(this.transcript.texts, native) ?? open;
    }
    if (open.replay !== undefined && open.text !== open.replay) open = this.#diverge(native, open, "");
    const status = options.failed === true ? "failed" : "completed";
    this.put(
      { type: "item.completed", data: { item: messageItem(native, open, { status, text: whole }) } },
      open.parent,
    );
    this.remember({ texts: without(this.transcript.texts, native) });
    return true;
  }

  /** A text that comes in one piece. */
  sayWhole(native: string, text: string, options: Origin & { kind?: TextKind } = {}): void {
    if (this.startText(native, options)) this.endText(native, text);
  }

  /** Notes a cut of the stream. The CLI will repeat the open texts from their beginning, but they are shown once. */
  tear(origin?: Origin): void {
    const parent = origin && this.itemOf(origin);
    const cut = Object.entries(this.transcript.texts).filter(([, text]) => !origin || text.parent === parent);
    // A repetition can be compared only with a text that is known to its end.
    const first = cut.find(([, text]) => !text.full);
    const others = cut.filter((one) => one !== first);
    for (const [native] of others) this.endText(native, undefined, { failed: true });
    if (!first) return;
    const [native, text] = first;
    this.remember({ texts: without(this.transcript.texts, native), torn: { native, text } });
  }

  #openText(native: string, { kind, parent }: { kind: TextKind; parent: string | undefined }): OpenText {
    const open: OpenText = {
      item: this.nextId(),
      kind,
      text: "",
      ...(parent === undefined ? {} : { parent }),
    };
    const item = messageItem(native, open, { status: "in_progress", text: "" });
    this.put({ type: "item.started", data: { item } }, parent);
    this.#keepText(native, open);
    return open;
  }

  /** Skips the text that was shown before the cut. A text that differs is shown from its beginning. */
  #replayed(native: string, open: OpenText, delta: string): boolean {
    const { replay = "" } = open;
    const text = open.text + delta;
    if (text.length <= replay.length && replay.startsWith(text)) {
      this.#keepText(native, { ...open, text });
      return true;
    }
    if (!text.startsWith(replay)) {
      this.#diverge(native, open, delta);
      return true;
    }
    const { replay: _, ...rest } = open;
    this.#keepText(native, { ...rest, text });
    this.putDelta(open.item, native, text.slice(replay.length), open.parent);
    return true;
  }

  /** Ends the shown text as failed, and starts a new item for the text that differs from it. */
  #diverge(native: string, open: OpenText, delta: string): OpenText {
    const { kind, parent, replay = "" } = open;
    const cut = messageItem(native, open, { status: "failed", text: replay });
    this.put({ type: "item.completed", data: { item: cut } }, parent);
    const next = { ...this.#openText(native, { kind, parent }), text: open.text + delta };
    this.#keepText(native, next);
    if (next.text !== "") this.putDelta(next.item, native, next.text, parent);
    return next;
  }

  /** Completes a cut text that was not repeated, as failed. */
  protected dropTorn(): void {
    const { torn } = this.transcript;
    if (!torn) return;
    const { native, text } = torn;
    this.put(
      {
        type: "item.completed",
        data: { item: messageItem(native, text, { status: "failed", text: shownOf(text) }) },
      },
      text.parent,
    );
    this.forgetTorn();
  }

  protected put(fact: HarnessFact, parent: string | undefined): void {
    this.facts.push(parent === undefined ? fact : { ...fact, parent_id: parent });
  }

  protected putDelta(item: string, native: string, delta: string, parent: string | undefined): void {
    this.put({ type: "item.delta", data: { item_id: item, native_item_id: native, delta } }, parent);
  }

  protected itemOf({ parent, parentItem }: Origin): string | undefined {
    return (parent === undefined ? undefined : own(this.#transcript.calls, parent)?.item) ?? parentItem;
  }

  protected nextId(kind?: IdKind): string {
    const { prefix, count } = this.#transcript;
    this.remember({ count: count + 1 });
    return toId(prefix, count + 1, kind);
  }

  protected remember(change: Partial<Transcript<Ask>>): void {
    this.#transcript = { ...this.#transcript, ...change };
  }

  protected forgetTorn(): void {
    const { torn: _, ...rest } = this.#transcript;
    this.#transcript = rest;
  }

  /** Empties the transcript. The count of ids stays. */
  protected forgetAll(): void {
    const { prefix, count } = this.#transcript;
    this.#transcript = { ...emptyTranscript<Ask>(prefix), count };
  }

  /** Adds to a text. All open texts together have a limit, because the decoder's state is stored. */
  #grow(native: string, open: OpenText, delta: string): void {
    if (open.full) return;
    const { texts, torn } = this.transcript;
    let room = COLLECTED_LENGTH - (torn?.text.text.length ?? 0);
    for (const name in texts) room -= texts[name]?.text.length ?? 0;
    if (delta.length <= room) this.#keepText(native, { ...open, text: open.text + delta });
    else this.#keepText(native, { ...open, text: addCut(open.text, delta, room), full: true });
  }

  #keepText(native: string, text: OpenText): void {
    this.remember({ texts: { ...this.transcript.texts, [native]: text } });
  }
}

/** The text that readers have seen. After a second cut it may be longer than the last stream. */
function shownOf(text: OpenText): string {
  return text.replay ?? text.text;
}
