import { setImmediate as letOthersRun } from "node:timers/promises";
import type { EventDraft, Outline, SessionAt, SluiceEvent } from "../../contract/index.ts";
import type { EventLog, SessionRow } from "../../log/port.ts";
import { cursorGone } from "../../log/refusals.ts";
import type { KeptFold, KeptTurn } from "../../log/kept/turns.ts";
import { toSessionInfo, toWaitingInput } from "./info.ts";
import { isFold } from "./load.ts";
import { applyEvent, emptyFold, type SessionFold } from "./session-fold.ts";
import { emptyTally, fromKeptTurn, toEndedTurn, toRunningTurn } from "./tally.ts";
import { toHistory } from "./writer.ts";

const PAGE = 1_000;
/** How many turns of an older log are stored at a time. */
const FILLED_TURNS = 64;

/** The past of sessions: their turns, and their state at any event. It reads kept turns and folds, and the events of one turn. */
export class History {
  readonly #log: EventLog;
  /** The logs whose missing turns are being added, by ordinal. */
  readonly #filling = new Map<number, Promise<void>>();

  constructor(log: EventLog) {
    this.#log = log;
  }

  /** The newest turns, or those whose last event is before `before`. */
  async outline(row: SessionRow, { limit, before }: { limit: number; before?: number }): Promise<Outline> {
    await this.#fill(row);
    const newest = before === undefined ? await this.#foldAt(row, row.head) : undefined;
    const running = newest && toRunningTurn(newest);
    const wanted = running ? limit - 1 : limit;
    const page = { before: Math.min(before ?? row.head + 1, row.head + 1), limit: wanted + 1 };
    const kept = await this.#log.turns.list(row.ordinal, page);
    const oldest = kept[wanted - 1];
    return {
      turns: [
        ...kept
          .slice(0, wanted)
          .toReversed()
          .flatMap((turn) => fromKeptTurn(turn) ?? []),
        ...(running ? [running] : []),
      ],
      marks: newest && !running ? [...(newest.tally?.marks ?? [])] : [],
      head: row.head,
      ...(kept.length > wanted && { next: String(oldest?.last ?? row.head + 1) }),
    };
  }

  /** The session after the event `at`. */
  async at(row: SessionRow, at: number): Promise<SessionAt> {
    if (at > row.head || at < row.floor) throw cursorGone(row.id, at, row);
    await this.#fill(row);
    const fold = await this.#foldAt(row, at);
    return {
      ...toSessionInfo({ ...row, updatedAt: await this.#timeOf(row, at) }, fold),
      at,
      plan: fold.plan ?? [],
      inputs: fold.inbox.map(toWaitingInput),
      turns: fold.tally?.turns ?? 0,
      checkpoint: fold.checkpoint,
    };
  }

  async #timeOf(row: SessionRow, at: number): Promise<number> {
    if (at === 0) return row.createdAt;
    const [event] = await this.#log.read(row.id, { after: Math.max(at - 1, row.floor), limit: 1 });
    return event ? Date.parse((JSON.parse(event.body) as SluiceEvent).time) : row.updatedAt;
  }

  async #foldAt(row: SessionRow, at: number): Promise<SessionFold> {
    const fold = await this.#startOf(row, at);
    for await (const event of this.#read(row, { after: fold.head, through: at })) apply(fold, event);
    return fold;
  }

  /** The newest kept fold up to this event, or the fold of an empty log. */
  async #startOf(row: SessionRow, at: number): Promise<SessionFold> {
    for (let through = at; through >= row.floor;) {
      const kept = await this.#log.turns.foldAt(row.ordinal, through);
      const fold = kept && parseFold(kept);
      if (fold && fold.head >= row.floor) return fold;
      if (!kept) break;
      // A damaged fold counts as missing.
      through = kept.at - 1;
    }
    if (row.floor === 0) return emptyFold();
    return { ...emptyFold(), head: row.floor, started: true, tally: emptyTally(row.floor + 1) };
  }

  /** Adds the turns of a log that an older version wrote, or began to write. */
  async #fill(row: SessionRow): Promise<void> {
    if (isTracked(row)) return;
    const known = this.#filling.get(row.ordinal);
    if (known) return known;
    const filling = this.#fillNow(row).finally(() => this.#filling.delete(row.ordinal));
    this.#filling.set(row.ordinal, filling);
    return filling;
  }

  async #fillNow(row: SessionRow): Promise<void> {
    const fold = await this.#startOf(row, row.head);
    let turns: KeptTurn[] = [];
    let folds: KeptFold[] = [];
    const store = async (): Promise<void> => {
      if (turns.length > 0) await this.#log.turns.add(row.ordinal, { turns, folds });
      [turns, folds] = [[], []];
    };
    for await (const event of this.#read(row, { after: fold.head, through: row.head })) {
      const ended =
        event.type === "turn.ended"
          ? toEndedTurn(fold, event.data, event.sequence, Date.parse(event.time))
          : undefined;
      apply(fold, event);
      if (!ended) continue;
      turns.push(ended);
      folds.push(...toHistory([ended], fold).folds);
      if (turns.length === FILLED_TURNS) await store();
    }
    await store();
  }

  async *#read(
    row: SessionRow,
    { after: start, through }: { after: number; through: number },
  ): AsyncGenerator<SluiceEvent> {
    for (let after = start; after < through;) {
      const limit = Math.min(PAGE, through - after);
      const events = await this.#log.read(row.id, { after, limit, ordinal: row.ordinal });
      if (events.length === 0) return;
      for (const { body } of events) yield JSON.parse(body) as SluiceEvent;
      after = events.at(-1)?.sequence ?? through;
      await letOthersRun();
    }
  }
}

function apply(fold: SessionFold, event: SluiceEvent): void {
  applyEvent(fold, event as EventDraft, event.sequence, Date.parse(event.time));
}

/** Whether the writer of the session keeps its turns: the fold has been counting from the first event on. */
function isTracked({ snapshot }: SessionRow): boolean {
  return snapshot === undefined || (snapshot.state as Partial<SessionFold> | null)?.tally !== undefined;
}

function parseFold({ at, state }: KeptFold): SessionFold | undefined {
  try {
    const fold: unknown = JSON.parse(state);
    return isFold(fold, at) && fold.tally !== undefined ? fold : undefined;
  } catch {
    return undefined;
  }
}
