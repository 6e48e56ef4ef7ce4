import type { SessionInfo } from "../contract/index.ts";
import { type ContentState, initialContent } from "../dialects/content/index.ts";
import type { Link } from "./backend.ts";

/** Where the reading of a session begins, and what is open there. */
export interface Beginning {
  readonly after: number;
  readonly state: ContentState;
}

const PAGE = 256;

/**
 * The last place up to the cursor from which what is open at the cursor can be told: before the turn that began last. Only
 * a command may run since before that.
 */
export async function findBeginning(
  link: Link,
  info: Pick<SessionInfo, "sessionId" | "agent" | "oldest">,
  cursor: number,
): Promise<Beginning> {
  const floor = (info.oldest ?? 1) - 1;
  const session = info.sessionId;
  const after = await findTurnStart(link, session, { floor, cursor });
  const isWhole = after === 0;
  const state = initialContent(isWhole ? {} : { agent: info.agent });
  const command = isWhole ? null : await findCommand(link, session, { floor, through: after });
  return { after, state: { ...state, command } };
}

/** The sequence before the last turn that began up to the cursor: a turn's start says anew what is open. */
async function findTurnStart(
  link: Link,
  session: string,
  { floor, cursor }: { floor: number; cursor: number },
): Promise<number> {
  for (let end = cursor; end > floor; end -= PAGE) {
    const begin = Math.max(floor, end - PAGE);
    let started: number | undefined;
    for (let after = begin; after < end;) {
      const events = await link.read(session, { after, limit: end - after });
      for (const { type, sequence } of events) if (type === "turn.started") started = sequence;
      after = events.at(-1)?.sequence ?? end;
    }
    if (started !== undefined) return started - 1;
  }
  return Math.min(floor, cursor);
}

/** The command that runs at a place of the log. */
async function findCommand(
  link: Link,
  session: string,
  { floor, through }: { floor: number; through: number },
): Promise<ContentState["command"]> {
  const types = ["command.started", "command.ended"] as const;
  let command: ContentState["command"] = null;
  for (let after = Math.min(floor, through); ;) {
    const events = await link.read(session, { after, limit: PAGE, types });
    for (const event of events) {
      after = event.sequence;
      if (after > through) return command;
      if (event.type === "command.ended") command = null;
      if (event.type === "command.started")
        command = { id: event.data.command_id, background: event.data.background === true };
    }
    if (events.length === 0) return command;
  }
}
