import { signal } from "@preact/signals";
import type { JSX } from "preact";
import { useEffect, useState } from "preact/hooks";
import { client, wordsOf } from "../core/api.ts";
import { toCount, toLine } from "../core/format.ts";
import { activeBindings } from "../core/keys.ts";
import { go, route } from "../core/route.ts";
import { currentView, isFile } from "../core/session-view.ts";
import { Dialog } from "../parts/dialog.tsx";

export const paletteOpen = signal(false);

interface Choice {
  readonly label: string;
  readonly hint: string;
  run(): void;
}

/** Everything by its name: commands, sessions, an event by its number, and words in the session. */
export function Palette(): JSX.Element {
  const [text, setText] = useState("");
  const [at, setAt] = useState(0);
  const [found, setFound] = useState<readonly Choice[]>([]);
  const [total, setTotal] = useState("");
  const [commands] = useState(() => activeBindings());
  useEffect(() => {
    let stopped = false;
    const timer = setTimeout(() => {
      search(text).then(
        (result) => {
          if (stopped) return;
          setFound(result.choices);
          setTotal(result.total);
        },
        (error: unknown) => stopped || setTotal(`The search failed. ${wordsOf(error)}`),
      );
    }, 120);
    return () => {
      stopped = true;
      clearTimeout(timer);
    };
  }, [text]);
  const close = (): void => void (paletteOpen.value = false);
  const choose = (words: string): readonly Choice[] => {
    const named = commands
      .filter(({ label }) => label.includes(words.toLowerCase()))
      .map(({ label, keys, run: press }): Choice => ({
        label,
        hint: keys,
        run: () => press(new KeyboardEvent("keydown", { key: keys })),
      }));
    return [...toJump(words), ...(words === text ? found : []), ...named].slice(0, 60);
  };
  const choices = choose(text);
  const chosen = choices[Math.min(at, choices.length - 1)];
  const run = (choice: Choice | undefined): void => {
    close();
    if (choice) setTimeout(() => choice.run());
  };
  return (
    <Dialog label="Palette" wide onClose={close}>
      <input
        class="palette-input"
        role="combobox"
        aria-expanded="true"
        aria-controls="palette-list"
        aria-activedescendant={chosen ? `choice-${choices.indexOf(chosen)}` : undefined}
        aria-label="Command, session, event number or words"
        placeholder="a command, a session, an event’s number, or words in this session"
        value={text}
        onInput={(event) => {
          setText(event.currentTarget.value);
          setAt(0);
        }}
        onKeyDown={(event) => {
          if (event.key === "ArrowDown") setAt(Math.min(at + 1, choices.length - 1));
          if (event.key === "ArrowUp") setAt(Math.max(at - 1, 0));
          // Words that were typed a moment ago may not be drawn yet.
          const { value } = event.currentTarget;
          if (event.key === "Enter") run(value === text ? chosen : choose(value)[0]);
          if (["ArrowDown", "ArrowUp", "Enter"].includes(event.key)) event.preventDefault();
        }}
      />
      {total !== "" && <p class="muted palette-total">{total}</p>}
      <ul id="palette-list" class="palette-list" role="listbox" aria-label="Choices">
        {choices.map((choice, index) => (
          <li
            key={index}
            id={`choice-${index}`}
            role="option"
            aria-selected={choice === chosen}
            onClick={() => run(choice)}
          >
            <span>{toLine(choice.label, 160)}</span> <kbd>{choice.hint}</kbd>
          </li>
        ))}
        {choices.length === 0 && (
          <li role="option" aria-selected="false" aria-disabled="true">
            nothing found
          </li>
        )}
      </ul>
    </Dialog>
  );
}

function toJump(text: string): Choice[] {
  const view = currentView.value;
  if (!view || !/^[1-9][\d,]*$/.test(text)) return [];
  const sequence = Number(text.replaceAll(",", ""));
  return [{ label: `Go to event ${toCount(sequence)}`, hint: "event", run: () => view.seek(sequence) }];
}

async function search(text: string): Promise<{ choices: Choice[]; total: string }> {
  if (text.trim().length < 2) return { choices: [], total: "" };
  const choices: Choice[] = [];
  let total = "";
  const view = currentView.value;
  if (view && route.value.name === "session") {
    const result = await view.call("search", { text, limit: 30 });
    total = `${toCount(result.total)} ${result.total === 1 ? "event has" : "events have"} these words`;
    for (const { before, match, after, sequence, type } of result.hits)
      choices.push({
        label: `${before}${match}${after}`,
        hint: `${type} ${sequence}`,
        run: () => view.seek(sequence),
      });
  }
  if (isFile()) return { choices, total };
  const page = await client.sessions.list({ text, limit: 10 }).catch(() => ({ sessions: [] }));
  for (const { sessionId, title, agent } of page.sessions)
    choices.push({
      label: title ?? sessionId,
      hint: agent,
      run: () => go({ name: "session", id: sessionId, tab: "transcript" }),
    });
  return { choices, total };
}
