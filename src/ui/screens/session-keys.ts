import { useRef } from "preact/hooks";
import { copy, say } from "../core/announce.ts";
import { copyMarkdown } from "../transcript/copy.tsx";
import { may } from "../core/api.ts";
import { useKeys } from "../core/keys.ts";
import { go, linkTo, type Route, TABS } from "../core/route.ts";
import { isFile, type SessionView } from "../core/session-view.ts";
import type { RowView } from "../log/protocol.ts";
import { callComposer, stopTurn } from "../transcript/composer.tsx";
import { paletteOpen } from "./palette.tsx";

/** The keys of one session, in every tab. */
export function useSessionKeys(view: SessionView, route: Route & { name: "session" }): void {
  // Read when a key is pressed: keys need no drawing.
  const rowsNow = (): readonly RowView[] => view.screen.peek()?.rows ?? [];
  const place = (): number => rowsNow().findIndex(({ sequence }) => sequence === view.selected.peek());
  const chosen = (): RowView | undefined => rowsNow()[place()] ?? rowsNow().at(-1);
  const select = (by: number): void => {
    const [rows, index] = [rowsNow(), place()];
    const row = rows[index < 0 ? rows.length - 1 : Math.max(0, Math.min(index + by, rows.length - 1))];
    if (row) view.selected.value = row.sequence;
  };
  const stopping = useRef(0);
  useKeys([
    ...TABS.map((tab, number) => ({
      keys: String(number + 1),
      label: tab,
      run: () => go({ ...route, tab }),
    })),
    { keys: "j", label: "next item", run: () => select(1) },
    { keys: "k", label: "item before", run: () => select(-1) },
    { keys: "J", label: "next turn", run: () => view.stepTurn(1) },
    { keys: "K", label: "turn before", run: () => view.stepTurn(-1) },
    {
      keys: "Enter",
      label: "open or close the item",
      run: () => {
        const row = chosen();
        if (row) view.toggle(row.sequence, !(view.opened.value.get(row.sequence) ?? false));
      },
    },
    { keys: "e", label: "expand all", run: () => (view.openAll.value = !view.openAll.value) },
    { keys: "v", label: "every event, or the transcript", run: () => (view.all.value = !view.all.value) },
    ...ANSWERS.map(({ keys, label, which }) => ({ keys, label, run: () => answer(view, which) })),
    { keys: "c", label: "write a message", run: () => write(view, route) },
    {
      keys: "Escape",
      label: "back to live; twice: stop the turn",
      inText: true,
      run: () => escape(view, stopping),
    },
    { keys: "g", label: "go to an event by its number", run: () => (paletteOpen.value = true) },
    { keys: "r", label: "raw of the selection", run: () => go({ ...route, tab: "frames" }) },
    { keys: ".", label: "copy the link to this event", run: () => void copyLink(view, chosen()?.last) },
    { keys: "i", label: "copy the item as markdown", run: () => void copyMarkdown(view, "item", chosen()) },
    { keys: "u", label: "copy the turn as markdown", run: () => void copyMarkdown(view, "turn", chosen()) },
    { keys: "m", label: "copy the thread as markdown", run: () => void copyMarkdown(view, "thread") },
  ]);
}

const ANSWERS = [
  { keys: "y", label: "allow once", which: "once" },
  { keys: "a", label: "allow always", which: "always" },
  { keys: "n", label: "reject", which: "reject" },
] as const;

/** Presses the button of the request in focus, or of the oldest one. Nobody answers what is not on the screen. */
function answer(view: SessionView, which: "once" | "always" | "reject"): void {
  if ((view.moment.value?.pending.length ?? 0) === 0 || view.at.value !== null) return;
  const buttons = [...document.querySelectorAll<HTMLButtonElement>(`.ask-open [data-answer=${which}]`)];
  const button = buttons.find((one) => one.closest(".row.selected")) ?? buttons[0];
  if (button) return button.click();
  if (document.querySelector(".ask-open")) return say("This request has no such answer.", "bad");
  view.ends.value += 1;
  say("Here is the request. Press the key again to answer it.");
}

/** Nothing can be written in the past, or in another tab than the transcript. */
function write(view: SessionView, route: Route & { name: "session" }): void {
  view.seek(null);
  if (route.tab !== "transcript") go({ ...route, tab: "transcript" });
  callComposer();
}

/** Back to live; at the head, the second press within two seconds stops the turn. */
function escape(view: SessionView, asked: { current: number }): void {
  if (view.at.value !== null) return view.seek(null);
  const { activeElement } = document;
  // The first press leaves a field: somebody who leaves two of them stops nothing.
  if (activeElement instanceof HTMLElement && activeElement.matches("input, textarea"))
    return activeElement.blur();
  const moment = view.moment.value;
  if (!moment || moment.turnId === null || moment.interrupted || isFile() || !may("control")) return;
  const now = Date.now();
  if (now - asked.current <= 2_000) {
    asked.current = 0;
    return void stopTurn(view);
  }
  asked.current = now;
  say("Press Escape again to stop the turn");
}

async function copyLink(view: SessionView, sequence = view.now): Promise<void> {
  await copy(linkTo(view.id, sequence), `Link to event ${sequence}`);
}
