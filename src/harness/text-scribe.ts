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

  /** Any fact, with its parent where it comes from a sub-agent. */
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
    this.#keepText(native, { ...open, text: open.text + delta });
    if (delta !== "") this.putDelta(open.item, native, delta, open.parent);
    return true;
  }

  /** Ends a text; `text` is the whole text, where the CLI repeats it. */
  endText(native: string, text?: string, options: { failed?: boolean } = {}): boolean {
    let open = own(this.transcript.texts, native);
    if (!open) return false;
    const whole = text ?? open.text;
    // The deltas must add up to the text, so its rest becomes a delta.
    if (whole.length > open.text.length && whole.startsWith(open.text)) {
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

  /** The stream was cut, and the CLI will repeat the open texts from their beginning. They are shown once. */
  tear(origin?: Origin): void {
    const parent = origin && this.itemOf(origin);
    const cut = Object.entries(this.transcript.texts).filter(([, text]) => !origin || text.parent === parent);
    const [first, ...others] = cut;
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

  #keepText(native: string, text: OpenText): void {
    this.remember({ texts: { ...this.transcript.texts, [native]: text } });
  }
}

/** The text that readers have seen. After a second cut that may be more than the last stream had. */
function shownOf(text: OpenText): string {
  return text.replay ?? text.text;
}
