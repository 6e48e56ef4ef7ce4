import type { Context, Hono } from "hono";
import { type Access, NOBODY } from "../access/access.ts";
import type { AppEnv } from "../context.ts";
import { createMount } from "../operation.ts";
import type { Services } from "../services.ts";
import { mountWebhooks } from "../webhooks/operations.ts";
import { mountEvents } from "./events.ts";
import { mountFiles } from "./files.ts";
import { mountCheckpointFiles } from "./inspection/checkpoint-files.ts";
import { mountInputs } from "./inspection/inputs.ts";
import { mountOutline } from "./inspection/outline.ts";
import { mountSessionStream } from "./inspection/session-stream.ts";
import { mountMessages } from "./messages.ts";
import { mountPorts } from "./ports.ts";
import { mountSandbox } from "./sandbox.ts";
import { mountServer, serverOperations } from "./server.ts";
import { mountSessions } from "./sessions.ts";
import { mountTokens } from "./tokens.ts";
import { mountUsage } from "./usage.ts";

/** Mounts the universal dialect and the server's own operations. */
export function mountUniversal(app: Hono<AppEnv>, services: Services): void {
  const mount = createMount(app, services);
  mountServer(mount, services, describe);
  // Before the sessions themselves, whose id may be any text.
  mountSessionStream(mount, services);
  mountSessions(mount);
  mountMessages(mount, services);
  mountEvents(mount, services);
  mountOutline(mount);
  mountInputs(mount);
  mountCheckpointFiles(mount);
  mountSandbox(mount);
  mountFiles(mount, services);
  mountUsage(mount);
  mountTokens(mount, services);
  mountWebhooks(mount, services);
  mountPorts(app, services);
}

/** The OpenAPI document, whose code is loaded by the first request for it. */
async function describe(about: { version: string }): Promise<object> {
  const { toOpenApi } = await import("../openapi/document.ts");
  return toOpenApi(about);
}

const OPEN: ReadonlySet<string> = new Set(
  Object.values(serverOperations).flatMap((operation) =>
    operation.scope === "open" ? [operation.path] : [],
  ),
);

/** Admits operations that need no token: a health probe has none, and the home page holds no secret. */
export function admitOpen(c: Context<AppEnv>): Access | undefined {
  return OPEN.has(c.req.path) ? NOBODY : undefined;
}
