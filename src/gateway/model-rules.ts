import { setTimeout as sleep } from "node:timers/promises";
import { type Desk, type GatewayRules, toSentModel } from "./desk.ts";
import type { Answer, Answerer, Exchange } from "./forward.ts";
import { readRate } from "./headers.ts";
import type { RecordWriter } from "./record.ts";
import { Refusal } from "./refusal.ts";
import { asCount, asObject, type Json, type WireId } from "./wire.ts";

/** The least wait for a limit whose reset is already past by this machine's clock. */
const LEAST_WAIT_MS = 250;
/** setTimeout takes no longer one. */
const LONGEST_SLEEP_MS = 2 ** 30;

/** Keeps the session's rules: its policy, other names of models, a fallback, the wait for a provider's limit. */
export function createRuled(
  inner: Answerer,
  { desk, records }: { desk: Pick<Desk, "read">; records: RecordWriter },
): Answerer {
  return {
    async answer(exchange, { signal }) {
      // They may change while the request waits.
      for (;;) {
        const rules = (await desk.read())?.rules;
        if (!rules || !exchange.call.isModelRequest) return inner.answer(exchange, { signal });
        refuseByPolicy(rules.policy, exchange);
        const answer = await askInOrder(inner, exchange, { rules, signal });
        const until = answer.status === 429 ? readRate(answer.headers, Date.now())?.reset : undefined;
        if (rules.untilReset !== true || until === undefined) return answer;
        answer.body.destroy();
        records.write({ type: "limited", id: exchange.id, time: Date.now(), until });
        await sleepUntil(until, signal);
      }
    },
  };
}

/** Asks for the model, then for each of the fallback. An answer that has begun is never asked for again. */
async function askInOrder(
  inner: Answerer,
  exchange: Exchange,
  { rules, signal }: { rules: GatewayRules; signal: AbortSignal },
): Promise<Answer> {
  const first = toSentModel(rules, exchange.facts.model);
  const others = first === undefined ? [] : (rules.fallback ?? []).filter((name) => name !== first);
  for (const [at, name] of [first, ...others].entries()) {
    const isLast = at === others.length;
    try {
      const answer = await inner.answer(withModel(exchange, name), { signal });
      const told = { ...answer, ...(name === undefined ? {} : { model: name }) };
      if (!isLast && mayFallBack(answer.status)) answer.body.destroy();
      else return at === 0 ? told : { ...told, servedBy: "fallback" };
    } catch (error) {
      if (isLast || signal.aborted || error instanceof Refusal) throw error;
    }
  }
  throw new Error("there is always a last model");
}

function mayFallBack(status: number): boolean {
  return status === 429 || status >= 500;
}

function refuseByPolicy(policy: GatewayRules["policy"], { facts: { model }, body }: Exchange): void {
  if (!policy) return;
  const { models, maxOutputTokens: most } = policy;
  if (models && !models.includes(model ?? ""))
    throw refused(`its policy allows the models ${models.join(", ")}`);
  if (most === undefined) return;
  const asked = outputOf(parse(body));
  if (asked === undefined || asked > most)
    throw refused(`its policy allows ${most} output tokens, and a request has to name at most that many`);
}

/** The longest answer that a request allows, in the field of its wire. */
function outputOf(body: Json): number | undefined {
  const gemini = asObject(body["generationConfig"])["maxOutputTokens"];
  const fields = [body["max_tokens"], body["max_output_tokens"], body["max_completion_tokens"], gemini];
  const counts = fields.flatMap((value) => asCount(value) ?? []);
  return counts.length === 0 ? undefined : Math.max(...counts);
}

function refused(why: string): Refusal {
  return new Refusal(403, "policy", `sluice: the session does not allow this request: ${why}.`);
}

/** The exchange with another name of its model, and not another byte changed. */
function withModel(exchange: Exchange, name: string | undefined): Exchange {
  const { call, facts, body } = exchange;
  if (name === undefined || name === facts.model) return exchange;
  const place = IN_PATH[call.wire.id];
  if (place !== undefined) {
    const path = call.path.replace(place, (_, before: string) => `${before}${encodeURIComponent(name)}`);
    return { ...exchange, call: { ...call, path } };
  }
  const span = findModel(body);
  if (span === undefined) return exchange;
  const parts = [body.subarray(0, span.start), Buffer.from(JSON.stringify(name)), body.subarray(span.end)];
  return { ...exchange, body: Buffer.concat(parts) };
}

/** The place of the model's name in a path, for the APIs that have it there. */
const IN_PATH: Readonly<Partial<Record<WireId, RegExp>>> = {
  gemini: /(\/models\/)[^/:?]+(?=:)/,
  vertex: /(\/models\/)[^/:?]+(?=:)/,
  bedrock: /(\/model\/)[^/?]+(?=\/)/,
};

/** The bytes of the text that the top-level `model` of a JSON object has. The last one counts, as for JSON.parse. */
function findModel(body: Buffer): { start: number; end: number } | undefined {
  let depth = 0;
  let key: string | undefined;
  let found: { start: number; end: number } | undefined;
  for (let at = 0; at < body.length; at++) {
    const byte = body[at];
    if (byte === OPEN_BRACE || byte === OPEN_BRACKET) depth += 1;
    else if (byte === CLOSE_BRACE || byte === CLOSE_BRACKET) depth -= 1;
    else if (byte === COMMA && depth === 1) key = undefined;
    if (byte !== QUOTE) continue;
    const end = endOfText(body, at);
    if (depth === 1 && key === undefined) key = body.toString("utf8", at, end);
    else if (depth === 1 && key === '"model"') found = { start: at, end };
    at = end - 1;
  }
  return found;
}

const [OPEN_BRACE, CLOSE_BRACE, OPEN_BRACKET, CLOSE_BRACKET, COMMA, QUOTE, BACKSLASH] =
  Buffer.from('{}[],"\\');

function endOfText(body: Buffer, start: number): number {
  for (let at = start + 1; at < body.length; at++) {
    if (body[at] === BACKSLASH) at += 1;
    else if (body[at] === QUOTE) return at + 1;
  }
  return body.length;
}

async function sleepUntil(until: number, signal: AbortSignal): Promise<void> {
  let wait = Math.max(LEAST_WAIT_MS, until - Date.now());
  for (; wait > 0; wait = until - Date.now())
    await sleep(Math.min(wait, LONGEST_SLEEP_MS), undefined, { signal });
}

function parse(body: Buffer): Json {
  try {
    return asObject(JSON.parse(body.toString("utf8")));
  } catch {
    return {};
  }
}
