import type { SluiceEvent } from "../../contract/index.ts";
import { type Ask, RequestPrompt } from "../run/request-prompt.ts";
import type { Controls } from "../source/port.ts";
import { BusyLine } from "../terminal/busy-line.ts";
import type { Screen } from "../terminal/screen.ts";
import type { EventPrinter } from "../transcript/formats.ts";

export interface WatchOptions {
  readonly session: string;
  readonly screen: Screen;
  readonly print: EventPrinter;
  /** For Ctrl-C during a question. */
  readonly interrupt: () => void;
  readonly ask?: Ask;
  /** The effect of Ctrl-C while the agent works, as text. */
  readonly hint: string;
  /** Writes text of the transcript (default: on the screen). */
  readonly write?: (text: string) => Promise<void>;
  /** Whether the person has seen the event already. */
  readonly isKnown?: (event: SluiceEvent) => boolean;
  readonly onEvent?: (event: SluiceEvent) => void;
  /** Awaited before each event. */
  readonly ready?: () => Promise<void>;
}

/** Follows a session: prints its events, and asks the person at the terminal for answers to the agent's requests. */
export async function watchSession(
  controls: Controls,
  options: WatchOptions,
  { after, signal }: { after: number; signal: AbortSignal },
): Promise<void> {
  const { session, screen, print, interrupt, ask, hint, onEvent } = options;
  const write = options.write ?? ((text) => screen.write(text));
  const requests = new RequestPrompt(controls, screen, {
    interrupt,
    unattended: "wait",
    ...(ask && { ask }),
  });
  const busy = new BusyLine(screen, { hint, isTaken: () => requests.isAsking });
  try {
    for await (const stored of controls.follow(session, { after, signal })) {
      await options.ready?.();
      const event = JSON.parse(stored.body) as SluiceEvent;
      if (event.type === "turn.started") busy.start(Date.parse(event.time));
      busy.touch();
      requests.settle(event);
      if (!options.isKnown?.(event)) await write(print(stored));
      if (event.type === "turn.ended") busy.stop();
      requests.observe(event);
      onEvent?.(event);
      if (signal.aborted) return;
    }
  } finally {
    busy.stop();
    await requests.close();
  }
}

/** How many events before the head are searched for the start of the last turn, step by step. */
const WINDOWS = [1_000, 10_000, 100_000, Infinity];

/** The sequence before the last turn's first event; without a turn, the sequence before the first event. */
export async function findLastTurn(controls: Controls, session: string): Promise<number> {
  const { eventCount, oldest = 1 } = await controls.info(session);
  for (const window of WINDOWS) {
    const after = Math.max(oldest - 1, eventCount - window);
    let last: number | undefined;
    for await (const { sequence } of controls.turnStarts(session, { after })) last = sequence - 1;
    if (last !== undefined || after === oldest - 1) return last ?? after;
  }
  return oldest - 1;
}
