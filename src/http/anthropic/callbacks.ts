import { randomBytes } from "node:crypto";
import { SluiceError } from "../../contract/index.ts";
import { Callback } from "../../dialects/anthropic/resources/callback.ts";
import { parseWith } from "../../dialects/universal/index.ts";
import type { Submission } from "../../sessions/submission.ts";
import { readBody } from "../body.ts";
import { parseJson, parseText } from "../json.ts";
import type { Meter } from "../meter.ts";
import { findRun, takeOver } from "./callback-runs.ts";
import { isSignedBy, isTimely, readCallbackHeaders, secretOf } from "./callback-signature.ts";
import type { Route } from "./route.ts";
import type { AnthropicServices } from "./services.ts";
import { readOpenRecord } from "./session-record.ts";
import { readSigningKey } from "./signing-key.ts";

/** It is held before anybody knows who sent it. */
const MAX_BYTES = 1024 * 1024;

/** What a remote runner of a session reports, signed with a secret that opens nothing else. */
export function mountCallbacks(route: Route, services: AnthropicServices): void {
  const { catalog, engine, limits, meter } = services;

  route("POST", "/sessions/:id/callbacks/register", {}, async ({ owner, param }) => {
    const { session, info } = await readOpenRecord(services, owner, param("id"));
    const run_id = `run_${randomBytes(16).toString("hex")}`;
    const { createdAt } = info;
    await takeOver(services, session, { run_id, owner, session_created_at: createdAt });
    const secret = secretOf(await readSigningKey(catalog, "callbacks"), { session, createdAt });
    return { type: "callback_run", run_id, secret };
  });

  route("POST", "/sessions/:id/callbacks", {}, async ({ c, param }) => {
    const bytes = await readBody(c, Math.min(MAX_BYTES, limits.json));
    const headers = readCallbackHeaders(c);
    const run = await findRun(services, param("id"));
    const [session, createdAt] = [run?.id ?? param("id"), run?.body.session_created_at ?? 0];
    const secret = secretOf(await readSigningKey(catalog, "callbacks"), { session, createdAt });
    if (!headers || !isSignedBy(secret, headers, bytes) || !run) throw refused(meter, "bad_signature");
    if (!isTimely(headers)) throw refused(meter, "expired");

    const { run_id, events } = parseWith(Callback, parseJson(parseText(bytes)), "body");
    const { info } = await readOpenRecord(services, run.body.owner, session);
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

/** Its own codes cannot be taken for those of the agent or of its model. */
function toSubmission(event: Callback["events"][number]): Submission {
  if (event.type === "custom") return { kind: "custom", name: event.name, value: event.value ?? null };
  const { type: _, code, ...said } = event;
  return { kind: "error", error: { ...said, code: code === undefined ? "runner" : `runner_${code}` } };
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
    "The timestamp is more than 5 minutes away. Sign it again with the time of now.",
  ],
  replayed: ["idempotency_conflict", "The nonce came with another report before. Use a new one for each."],
} as const;
