import { once } from "node:events";
import type { SluiceEvent } from "../../contract/index.ts";
import { type ChoiceOptions, ensureSession } from "../run/session-choice.ts";
import type { Controls } from "../source/port.ts";
import { CliFailure, describeFailure } from "../terminal/failure.ts";
import type { Screen } from "../terminal/screen.ts";
import { createPrint } from "../transcript/formats.ts";
import { LineEditor } from "./line-editor.ts";
import { type ChatActions, runSlash, SLASH_WORDS } from "./slash.ts";
import { findLastTurn, watchSession } from "./watch.ts";

export interface ChatOptions {
  readonly screen: Screen;
  /** The choices for a new session. */
  readonly choice: ChoiceOptions;
  readonly history: string[];
}

/** A conversation at the terminal. The session is made with the first message, unless the chat continues one. */
export class Chat implements ChatActions {
  readonly controls: Controls;
  readonly #screen: Screen;
  readonly #choice: ChoiceOptions;
  readonly #editor: LineEditor;
  readonly #left = new AbortController();
  #session: string | undefined;
  /** Ends the following of the current session. */
  #following: AbortController | undefined;
  #followed: Promise<void> = Promise.resolve();
  /** The running turn, and the turns of messages that were sent here. */
  #running: string | undefined;
  readonly #sent = new Map<string, { readonly isEchoed: boolean }>();
  #isSending = false;
  /** Whether Ctrl-C came before the turn of the last message began. */
  #isUnwanted = false;
  /** Resolves when the turn of the last message is known. */
  #sending: Promise<void> = Promise.resolve();
  #isLeaving = false;

  constructor(controls: Controls, { screen, choice, history }: ChatOptions) {
    this.controls = controls;
    this.#screen = screen;
    this.#choice = choice;
    const { magenta, dim } = screen.page.paint;
    this.#editor = new LineEditor({
      prompts: { first: `${magenta("›")} `, more: `${dim("…")} ` },
      history,
      completions: SLASH_WORDS,
      onText: (text, echo) => void this.#take(text, echo),
      onInterrupt: () => void this.#interrupt(),
      onEnd: () => this.leave(),
    });
  }

  get session(): string | undefined {
    return this.#session;
  }

  /** Runs until the person leaves. */
  async run(session: string | undefined): Promise<void> {
    try {
      if (session !== undefined) await this.enter(session);
      this.#update();
      if (!this.#left.signal.aborted) await once(this.#left.signal, "abort");
    } finally {
      this.#isLeaving = true;
      this.#editor.close();
      // This process's own engine ends with it, so nobody could answer the agent.
      if (!this.controls.isServer && this.#running !== undefined) await this.#stop();
      this.#following?.abort();
      await this.#followed;
    }
  }

  say(text: string): void {
    this.#editor.hide();
    this.#screen.note(text);
  }

  leave(): void {
    this.#left.abort();
  }

  async enter(session: string | undefined): Promise<void> {
    if (session === this.#session && session !== undefined) return;
    if (session !== undefined && (await this.controls.info(session)).ended)
      throw new CliFailure(`The session ${session} has ended. /new begins another one.`);
    this.#following?.abort();
    await this.#followed;
    this.#session = session;
    this.#running = undefined;
    this.#sent.clear();
    if (session === undefined) return this.say("The next message begins a new session.");
    this.#follow(session, await findLastTurn(this.controls, session));
  }

  #follow(session: string, after: number): void {
    const following = new AbortController();
    this.#following = following;
    const { signal } = following;
    const watched = {
      session,
      screen: this.#screen,
      print: createPrint(undefined, { ...this.#screen.page, isChat: true }),
      interrupt: () => void this.#interrupt(),
      ask: this.#editor.ask.bind(this.#editor),
      hint: "Ctrl-C interrupts",
      write: (text: string) => this.#write(text),
      isKnown: (event: SluiceEvent) => this.#isEchoed(event),
      onEvent: (event: SluiceEvent) => this.#observe(event),
      ready: () => this.#sending,
    };
    this.#followed = watchSession(this.controls, watched, { after, signal }).then(
      () => {
        if (!signal.aborted) this.#endSession();
      },
      (error: unknown) => this.#fail(error),
    );
  }

  async #write(text: string): Promise<void> {
    if (text !== "") await this.#editor.above(() => this.#screen.write(text));
  }

  /** Whether the event repeats a message that the person has typed and still sees. */
  #isEchoed(event: SluiceEvent): boolean {
    const isItem = event.type === "item.started" || event.type === "item.completed";
    if (!isItem || event.data.item.role !== "user") return false;
    return this.#sent.get(event.turn_id ?? "")?.isEchoed ?? false;
  }

  #observe(event: SluiceEvent): void {
    if (event.type === "turn.started") {
      this.#running = event.data.turn_id;
      if (this.#isUnwanted && this.#sent.has(event.data.turn_id)) void this.#interrupt();
    }
    if (event.type === "turn.ended") {
      this.#running = undefined;
      this.#sent.delete(event.data.turn_id);
      this.#screen.note("");
    }
    this.#update();
  }

  /** The session has ended or was deleted: the next message begins another one. */
  #endSession(): void {
    this.#session = undefined;
    this.#running = undefined;
    this.#sent.clear();
    this.say("The session is over. The next message begins a new one.");
    this.#update();
  }

  /** Shows the prompt only while no turn runs or waits. */
  #update(): void {
    const isBusy = this.#isSending || this.#running !== undefined || this.#sent.size > 0;
    if (isBusy || this.#isLeaving) this.#editor.hide();
    else this.#editor.show();
  }

  async #take(text: string, echo: { isEchoed: boolean }): Promise<void> {
    this.#isSending = true;
    try {
      if (text.trim() !== "" && !(await runSlash(this, text))) await this.#send(text, echo);
    } catch (error) {
      this.#fail(error);
    } finally {
      this.#isSending = false;
      if (this.#sent.size === 0) this.#isUnwanted = false;
    }
    this.#update();
  }

  async #send(text: string, echo: { isEchoed: boolean }): Promise<void> {
    const { session: _session, continue: _continue, ...choice } = this.#choice;
    const session = this.#session ?? (await ensureSession(this.controls, choice, { screen: this.#screen }));
    const sending = this.controls.send(session, text).then(({ turnId, after }) => {
      this.#sent.set(turnId, echo);
      return after;
    });
    // The events of the turn may arrive before the answer that names the turn.
    this.#sending = sending.then(
      () => {},
      () => {},
    );
    const after = await sending;
    if (this.#session === session) return;
    this.#session = session;
    this.#follow(session, after);
  }

  async #interrupt(): Promise<void> {
    const isComing = this.#isSending || this.#sent.size > 0;
    this.#isUnwanted = this.#running === undefined && isComing;
    if (this.#running !== undefined) return this.#stop();
    if (isComing) return;
    this.say("Ctrl-D leaves.");
    this.#update();
  }

  async #stop(): Promise<void> {
    if (this.#session === undefined) return;
    await this.controls.interrupt(this.#session).catch((error: unknown) => this.#fail(error));
  }

  #fail(error: unknown): void {
    this.#editor.hide();
    const { message } = describeFailure(error);
    if (message !== undefined && !this.#isLeaving) this.#screen.fail(message);
    this.#update();
  }
}
