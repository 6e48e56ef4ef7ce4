import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { announce, say } from "../core/announce.ts";
import { client, createKey, may, wordsOf } from "../core/api.ts";
import { toClock, toLine } from "../core/format.ts";
import { isFile, type SessionView } from "../core/session-view.ts";
import { type AskView, MAX_REQUEST } from "../log/protocol.ts";
import { Code } from "../parts/code.tsx";
import { describeAsk } from "./tool-words.ts";

/** A request of the agent, with its answer or the means to answer it. */
export function Ask(props: { view: SessionView; ask: AskView; time: number }): JSX.Element {
  const { ask, view, time } = props;
  const isPast = view.at.value !== null;
  const isOpen = !ask.answered && view.moment.value?.pending.some(({ id }) => id === ask.id) === true;
  return (
    <section class={isOpen ? "ask ask-open" : "ask"} aria-label={`Request: ${toLine(ask.prompt, 80)}`}>
      <header>
        <span class="ask-sign" aria-hidden="true">
          ◆
        </span>
        <strong>{TITLES[ask.kind]}</strong> <span class="ask-prompt">{toLine(ask.prompt, 400)}</span>
        <time class="muted">{toClock(time)}</time>
      </header>
      {ask.input !== undefined && isOpen && <Request prompt={ask.prompt} input={ask.input} />}
      {ask.answered && <p class="muted">{toLine(ask.answer ?? "", 400)}</p>}
      {!ask.answered && !isOpen && <p class="muted">{isPast ? "open at this moment" : "no longer open"}</p>}
      {isOpen && !isPast && !isFile() && may("answer") && <Answer session={view.id} ask={ask} />}
    </section>
  );
}

/** A longer command is shown with all of the request: nobody allows what is cut. */
const MAX_WORDS = 2_000;

/** What is asked for. The rest of the request is folded below the command or path that a person decides by. */
function Request({ prompt, input }: { prompt: string; input: string }): JSX.Element {
  const words = describeAsk(prompt, input);
  const whole = <Code text={joinBlanks(input)} language="json" />;
  if (input.length >= MAX_REQUEST)
    return (
      <>
        {whole}
        <p class="error">This is the beginning alone. All of it is in the event: press r.</p>
      </>
    );
  if (words === undefined || words.length > MAX_WORDS) return whole;
  return (
    <>
      <Code text={joinBlanks(words)} />
      <details>
        <summary>The whole request</summary>
        {whole}
      </details>
    </>
  );
}

/** Many blanks would push the end of a command out of sight. */
function joinBlanks(text: string): string {
  return text.replaceAll(/\s{24,}/g, (blanks) => ` ⟨${blanks.length} blanks⟩ `);
}

const TITLES = { permission: "asks to run", question: "asks", tool: "wants you to run" } as const;

/** The controls of an open request. The first answer wins; the loser is told who was first. */
export function Answer({ session, ask }: { session: string; ask: AskView }): JSX.Element {
  const [text, setText] = useState("");
  const [busy, setBusy] = useState(false);
  const send = async (work: () => Promise<void>, words: string): Promise<void> => {
    setBusy(true);
    try {
      await work();
      announce(`${words}: ${toLine(ask.prompt, 80)}`);
    } catch (error) {
      say(wordsOf(error), "bad");
    } finally {
      setBusy(false);
    }
  };
  const key = { idempotencyKey: createKey() };
  if (ask.kind === "permission") {
    const reply = (reply: "once" | "always" | "reject") =>
      send(
        () => client.replyPermission(session, ask.id, { reply, ...(text && { message: text }) }, key),
        reply === "reject" ? "Rejected" : "Allowed",
      );
    return (
      <div class="answers" data-ask={ask.id}>
        <button class="primary" disabled={busy} data-answer="once" onClick={() => void reply("once")}>
          Allow once <kbd>y</kbd>
        </button>
        <button disabled={busy} data-answer="always" onClick={() => void reply("always")}>
          Always <kbd>a</kbd>
        </button>
        <input
          placeholder="why not (optional)"
          aria-label="Words for the agent with a rejection"
          value={text}
          onInput={(event) => setText(event.currentTarget.value)}
        />
        <button class="danger" disabled={busy} data-answer="reject" onClick={() => void reply("reject")}>
          Reject <kbd>n</kbd>
        </button>
      </div>
    );
  }
  if (ask.kind === "question") {
    const answer = (words: string) =>
      send(() => client.replyQuestion(session, ask.id, [[words]], key), "Answered");
    return (
      <div class="answers" data-ask={ask.id}>
        {ask.options?.map((option, index) => (
          <button
            key={index}
            disabled={busy}
            data-answer={index === 0 ? "once" : "option"}
            onClick={() => void answer(option)}
          >
            {toLine(option, 120)}
          </button>
        ))}
        <form
          class="answer-text"
          onSubmit={(event) => {
            event.preventDefault();
            if (text !== "") void answer(text);
          }}
        >
          <input
            placeholder="another answer"
            aria-label="Another answer"
            value={text}
            onInput={(event) => setText(event.currentTarget.value)}
          />
          <button disabled={busy || text === ""}>Answer</button>
        </form>
        <button
          disabled={busy}
          data-answer="reject"
          onClick={() => void send(() => client.rejectQuestion(session, ask.id, key), "Rejected")}
        >
          No answer
        </button>
      </div>
    );
  }
  const reply = (isError: boolean) =>
    send(
      () => client.replyTool(session, ask.id, { output: text, isError }, key),
      isError ? "Failed" : "Sent",
    );
  return (
    <div class="answers" data-ask={ask.id}>
      <textarea
        aria-label="Result of the tool"
        placeholder="the result of the tool"
        rows={2}
        value={text}
        onInput={(event) => setText(event.currentTarget.value)}
      />
      <button class="primary" disabled={busy} data-answer="once" onClick={() => void reply(false)}>
        Send result
      </button>
      <button class="danger" disabled={busy} data-answer="reject" onClick={() => void reply(true)}>
        It failed
      </button>
    </div>
  );
}
