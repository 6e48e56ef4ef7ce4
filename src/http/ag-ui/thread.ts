import { type ContentPart, SessionId, SluiceError, type SessionInfo } from "../../contract/index.ts";
import { type ForwardedProps, type RunInput, toCustomTools } from "../../dialects/ag-ui/input.ts";
import { type Attached, toInstructions } from "../../dialects/ag-ui/prompt.ts";
import type { SessionRow } from "../../log/port.ts";
import type { Engine } from "../../sessions/port.ts";
import { digestOf } from "../anthropic/resend.ts";
import type { AgUiServices } from "./services.ts";

/** The session that a thread is: the one of that id, the one that the agent knows by `sessionId`, or a new one. */
export async function openThread(
  services: AgUiServices,
  agent: string,
  input: RunInput,
  { sessionId, sluice: wishes }: ForwardedProps,
): Promise<SessionRow> {
  const { engine, aliases } = services;
  const id = await findSession(services, input.threadId);
  const row = await engine.log.find(id);
  if (row) {
    if (row.spec.agent !== agent)
      throw new SluiceError(
        "invalid_request",
        `The thread ${id} is a session of the agent "${row.spec.agent}".`,
      );
    if (sessionId !== undefined) await assertNative(engine, id, sessionId);
    return row;
  }
  if (sessionId !== undefined) {
    const known = await findNative(engine, agent, sessionId);
    await aliases.remember(input.threadId, known.id);
    return known;
  }
  const custom = toCustomTools(input);
  const instructions = wishes?.instructions ?? toInstructions(input);
  const spec = {
    // A thread has no end that its clients could be told of.
    lasting: true,
    ...(wishes as object),
    agent,
    ...(custom ? { tools: { ...wishes?.tools, custom } } : {}),
    ...(instructions === undefined ? {} : { instructions }),
  };
  await engine.create(id, spec).catch(toMissing);
  return readRow(engine, id);
}

/** A thread may be called anything, by `useId()` for one; a session's id stands in paths. */
export async function findSession({ aliases }: AgUiServices, threadId: string): Promise<string> {
  const { success } = SessionId.safeParse(threadId);
  const own = success ? threadId : `thread-${digestOf(threadId).slice(0, 32)}`;
  return (await aliases.find(threadId)) ?? own;
}

/** An agent is a part of the path here: one that is unknown is a place that is not there. */
function toMissing(error: unknown): never {
  if (!(error instanceof SluiceError) || error.code !== "unsupported_agent") throw error;
  throw new SluiceError("not_found", error.message, error.facts);
}

/** The thread is only there below its own agent. */
export async function readThreadRow(
  services: AgUiServices,
  agent: string,
  threadId: string,
): Promise<SessionRow> {
  const row = await readRow(services.engine, await findSession(services, threadId));
  if (row.spec.agent === agent) return row;
  throw new SluiceError("session_not_found", `There is no thread ${threadId} of the agent "${agent}".`, {
    threadId,
  });
}

/** A client may bring other tools with each run; the agent is told of them before it begins. */
export async function updateTools(engine: Engine, row: SessionRow, input: RunInput): Promise<void> {
  const custom = toCustomTools(input);
  if (custom) await engine.update(row.id, { settings: { tools: { ...row.spec.tools, custom } } });
}

export async function readRow(engine: Engine, id: string): Promise<SessionRow> {
  const row = await engine.log.find(id);
  if (!row) throw new SluiceError("session_not_found", `There is no thread ${id}.`, { threadId: id });
  return row;
}

const UPLOADS = "/mnt/session/uploads";

/** What the agent cannot be shown is put where it can read it. */
export async function placeParts(
  engine: Engine,
  session: string,
  parts: readonly (ContentPart | Attached)[],
): Promise<ContentPart[]> {
  const placed: ContentPart[] = [];
  for (const part of parts) {
    if (part.type !== "attached") {
      placed.push(part);
      continue;
    }
    const extension = part.mime.split("/").at(-1)?.replaceAll(/\W+/g, "-") ?? "bin";
    const path = `${UPLOADS}/attachment-${digestOf(part.data).slice(0, 12)}.${extension}`;
    await (await engine.files(session)).write(path, Buffer.from(part.data, "base64"));
    placed.push({ type: "file_ref", path, action: "read" });
  }
  return placed;
}

async function assertNative(engine: Engine, id: string, sessionId: string): Promise<void> {
  const { nativeSessionId } = await engine.info(id);
  if (nativeSessionId !== sessionId) throw unknownNative(sessionId);
}

const SEARCHED = 1000;

/** A client that kept nothing but the agent's own id of the conversation. */
async function findNative(engine: Engine, agent: string, sessionId: string): Promise<SessionRow> {
  let cursor: string | undefined;
  for (let seen = 0; seen < SEARCHED;) {
    const page: { sessions: SessionInfo[]; next?: string } = await engine.list({
      limit: 100,
      ...(cursor ? { cursor } : {}),
    });
    const found = page.sessions.find((info) => info.nativeSessionId === sessionId && info.agent === agent);
    if (found) return readRow(engine, found.sessionId);
    if (page.next === undefined) break;
    seen += page.sessions.length;
    cursor = page.next;
  }
  throw unknownNative(sessionId);
}

function unknownNative(sessionId: string): SluiceError {
  return new SluiceError("session_not_found", `The agent has no session ${sessionId} here.`, { sessionId });
}
