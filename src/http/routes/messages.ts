import type { Context } from "hono";
import { SluiceError, type SendMessage } from "../../contract/index.ts";
import { toContent, toView, universal } from "../../dialects/universal/index.ts";
import type { SessionInput } from "../../sessions/port.ts";
import { readSession } from "../cursor.ts";
import type { AppEnv } from "../env.ts";
import type { Mount } from "../mount.ts";
import { operations } from "../operations.ts";
import type { Services } from "../services.ts";

export function mountMessages(mount: Mount, { engine, streams }: Services): void {
  mount(operations.sendMessage, async ({ c, body, param }) => {
    const { turnId } = await engine.send(param("id"), toInput(c, body));
    return c.body(null, 204, toTurnHeader(turnId));
  });

  mount(operations.streamMessage, async ({ c, body, query, param }) => {
    const session = param("id");
    const { turnId, after } = await engine.send(session, toInput(c, body));
    const { row, until } = await readSession(engine, session);
    return streams.respond(c, {
      session,
      ordinal: row.ordinal,
      dialect: universal,
      view: { ...toView(query), turn: turnId },
      after: Math.max(after, row.floor),
      ...(until !== undefined && { until }),
      headers: toTurnHeader(turnId),
    });
  });
}

export function toTurnHeader(turnId: string): Record<string, string> {
  return { "sluice-turn-id": turnId };
}

function toInput(c: Context<AppEnv>, message: SendMessage): SessionInput {
  const key = c.req.header("idempotency-key");
  if (key !== undefined && (key === "" || key.length > 255)) {
    throw new SluiceError("invalid_request", "Idempotency-Key: expected 1 to 255 characters.");
  }
  const { delivery, options } = message;
  return {
    content: toContent(message),
    via: universal.id,
    ...(key && { key }),
    ...(delivery && { delivery }),
    ...(options && { options }),
  };
}
