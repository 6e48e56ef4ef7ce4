import { createHmac, randomBytes, timingSafeEqual } from "node:crypto";
import type { Context } from "hono";
import type { Document } from "../../../catalog/port.ts";
import { SluiceError } from "../../../contract/index.ts";
import { fromSessionId } from "../../../dialects/anthropic/ids.ts";
import { Callback, type CallbackRunBody } from "../../../dialects/anthropic/resources/work.ts";
import { parseWith } from "../../../dialects/universal/index.ts";
import type { Submission } from "../../../sessions/inbox/submission.ts";
import { SYSTEM_TENANT } from "../../auth.ts";
import { parseBody } from "../../body/json.ts";
import { readBody } from "../../body/read.ts";
import type { AppEnv } from "../../context.ts";
import type { Meter } from "../../meter.ts";
import { readSigningKey } from "../collections.ts";
import { callbackOperations } from "../operations/work.ts";
import type { AnthropicServices, Route, SharedServices } from "../route.ts";
import { readOpenRecord } from "../sessions/record.ts";

/** Small, as a body is held in memory before its sender is known. */
const MAX_BYTES = 1024 * 1024;
const TOLERANCE_MS = 5 * 60_000;

/**
 * Reports of a session's remote runner, signed with a secret that opens nothing else. A runner has no token, so its
 * signature decides which session the engine of all requests may change.
 */
export function mountCallbacks(route: Route, services: AnthropicServices): void {
  const { catalog, engine, limits, meter } = services;

  route(callbackOperations.anthropicRegisterCallbacks, async ({ scope, tenant, param }) => {
    const { session, info } = await readOpenRecord(scope, param("id"));
    const run_id = `run_${randomBytes(16).toString("hex")}`;
    const { createdAt } = info;
    await takeOver(services, session, { run_id, owner: tenant, session_created_at: createdAt });
    const secret = secretOf(await readSigningKey(catalog, "callbacks"), { session, createdAt });
    return { type: "callback_run", run_id, secret };
  });

  route(callbackOperations.anthropicReportCallback, async ({ c, param }) => {
    const bytes = await readBody(c, Math.min(MAX_BYTES, limits.json));
    const headers = readCallbackHeaders(c);
    const run = await findRun(services, param("id"));
    const [session, createdAt] = [run?.id ?? param("id"), run?.body.session_created_at ?? 0];
    const secret = secretOf(await readSigningKey(catalog, "callbacks"), { session, createdAt });
    if (!headers || !isSignedBy(secret, headers, bytes) || !run) throw refused(meter, "bad_signature");
    if (!isTimely(headers)) throw refused(meter, "expired");

    const { run_id, events } = parseWith(Callback, parseBody(bytes), "body");
    const { info } = await readOpenRecord({ ...services, tenant: run.body.owner }, session);
    if (run_id !== run.body.run_id || info.createdAt !== createdAt) {
      meter.callbacksRefused.stale_run += 1;
      return { type: "callback", accepted: 0, duplicate: false, ignored: true };
    }
    const options = { via: "callback", key: `callback:${headers.nonce}` };
    const { duplicate } = await engine
      .submit(session, events.map(toSubmission), options)
      .catch((error: unknown) => {
        const isReplayed = error instanceof SluiceError && error.code === "idempotency_conflict";
        throw isReplayed ? refused(meter, "replayed") : error;
      });
    if (duplicate) meter.callbacksRefused.replayed += 1;
    else meter.callbacksAccepted += 1;
    return { type: "callback", accepted: duplicate ? 0 : events.length, duplicate, ignored: false };
  });
}

/** The prefix keeps a runner's error codes apart from those of the agent and its model. */
function toSubmission(event: Callback["events"][number]): Submission {
  if (event.type === "custom") return { kind: "custom", name: event.name, value: event.value ?? null };
  const { type: _, code, ...error } = event;
  return { kind: "error", error: { ...error, code: code === undefined ? "runner" : `runner_${code}` } };
}

function refused(meter: Meter, reason: keyof typeof REFUSALS): SluiceError {
  meter.callbacksRefused[reason] += 1;
  const [code, detail] = REFUSALS[reason];
  return new SluiceError(code, detail);
}

const REFUSALS = {
  bad_signature: [
    "token_invalid",
    'The signature is missing or wrong. Sign "<sluice-timestamp>.<sluice-nonce>.<body>" with the secret of the registration.',
  ],
  expired: [
    "token_invalid",
    "The timestamp differs from the server's time by more than 5 minutes. Sign the report again with the current time.",
  ],
  replayed: [
    "idempotency_conflict",
    "The nonce was used by another report. Use a new nonce for each report.",
  ],
} as const;

/** Replaces an earlier registration, whose reports are ignored from now on. */
function takeOver(
  { locks, collections: { callbackRuns } }: SharedServices,
  session: string,
  body: CallbackRunBody,
): Promise<void> {
  return locks.run(`callbacks ${session}`, async () => {
    if (await callbackRuns.find(SYSTEM_TENANT, session))
      return void (await callbackRuns.update(SYSTEM_TENANT, session, () => ({ replace: { body } })));
    await callbackRuns.create(SYSTEM_TENANT, { id: session, body });
  });
}

async function findRun(
  { collections }: SharedServices,
  id: string,
): Promise<Document<CallbackRunBody> | undefined> {
  for (const session of fromSessionId(id)) {
    const found = await collections.callbackRuns.find(SYSTEM_TENANT, session);
    if (found) return found;
  }
  return undefined;
}

interface CallbackHeaders {
  readonly timestamp: string;
  readonly nonce: string;
  readonly signature: string;
}

/** Undefined if a header is missing or malformed. The strict forms leave one reading of the signed text. */
function readCallbackHeaders(c: Context<AppEnv>): CallbackHeaders | undefined {
  const timestamp = c.req.header("sluice-timestamp") ?? "";
  const nonce = c.req.header("sluice-nonce") ?? "";
  const [, signature] = /^v1=([0-9a-f]{64})$/.exec(c.req.header("sluice-signature") ?? "") ?? [];
  if (signature === undefined || !/^\d{1,12}$/.test(timestamp) || !/^[\w-]{8,128}$/.test(nonce))
    return undefined;
  return { timestamp, nonce, signature };
}

function secretOf(key: string, { session, createdAt }: { session: string; createdAt: number }): string {
  return createHmac("sha256", key)
    .update(JSON.stringify(["callbacks", session, createdAt]))
    .digest("hex");
}

/** Takes the same time for every wrong signature. */
function isSignedBy(
  secret: string,
  { timestamp, nonce, signature }: CallbackHeaders,
  body: Uint8Array,
): boolean {
  const expected = createHmac("sha256", secret).update(`${timestamp}.${nonce}.`).update(body).digest();
  return timingSafeEqual(expected, Buffer.from(signature, "hex"));
}

function isTimely({ timestamp }: CallbackHeaders): boolean {
  return Math.abs(Date.now() - Number(timestamp) * 1000) <= TOLERANCE_MS;
}
