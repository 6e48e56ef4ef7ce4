import { setTimeout as sleep } from "node:timers/promises";
import { type Desk, type GatewayRules, toSentModel } from "./desk.ts";
import type { Answer, Answerer, AnswerOptions, Exchange } from "./forward.ts";
import { readRate } from "./headers.ts";
import type { RecordWriter } from "./record.ts";
import { Refusal } from "./refusal.ts";
import { asCount, asObject, type Json, type WireId } from "./wire.ts";

/** The least wait for a limit whose reset is already past by this machine's clock. */
const LEAST_WAIT_MS = 250;
const MOST_LEAST_WAIT_MS = 60_000;
/** setTimeout takes no longer one. */
const LONGEST_SLEEP_MS = 2 ** 30;

/** Keeps the session's rules: its policy, other names of models, a fallback, the wait for a provider's limit. */
export function createRuled(
  inner: Answerer,
  { desk, records }: { desk: Pick<Desk, "read">; records: RecordWriter },
): Answerer {
  return {
    async answer(exchange, options) {
      const { signal } = options;
      // They may change while the request waits.
      for (let waits = 0; ; waits++) {
        const rules = (await desk.read())?.rules;
        if (!rules || !exchange.call.isModelRequest) return inner.answer(exchange, options);
        refuseByPolicy(rules.policy, exchange);
        const answer = await askInOrder(inner, exchange, { ...options, rules });
        const until = answer.status === 429 ? readRate(answer.headers, Date.now())?.reset : undefined;
        if (rules.untilReset !== true || until === undefined) return answer;
        answer.body.destroy();
        // A provider may name a reset that is past, again and again.
        const next = Math.max(until, Date.now() + Math.min(MOST_LEAST_WAIT_MS, LEAST_WAIT_MS * 2 ** waits));
        records.write({ type: "limited", id: exchange.id, time: Date.now(), until: next });
        await sleepUntil(next, signal);
        await options.recheck?.();
      }
    },
  };
}

/** Asks for the model, then for each of the fallback. An answer that has begun is never asked for again. */
async function askInOrder(
  inner: Answerer,
  exchange: Exchange,
  { rules, signal, recheck }: AnswerOptions & { rules: GatewayRules },
): Promise<Answer> {
  const first = toSentModel(rules, exchange.facts.model);
  const others = first === undefined ? [] : (rules.fallback ?? []).filter((name) => name !== first);
  for (const [at, name] of [first, ...others].entries()) {
    const isLast = at === others.length;
    if (at > 0) await recheck?.();
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
  // Of a field that is there twice, providers take either. Some take another spelling, too.
  const names = findFields(body).map(({ name }) => name.toLowerCase().replaceAll("_", ""));
  if (new Set(names).size < names.length)
    throw refused("its policy takes no request that names a field twice");
  if (models && !models.includes(model ?? ""))
    throw refused(`its policy allows the models ${models.join(", ")}`);
  if (most === undefined) return;
  const asked = outputOf(parse(body));
  if (asked === undefined || asked > most)
    throw refused(`its policy allows ${most} output tokens, and a request has to name at most that many`);
}

/**
 * The longest answer that a request allows, in the fields of all wires. Google takes two spellings. A request may ask for
 * several answers.
 */
function outputOf(body: Json): number | undefined {
  const configs = [body, asObject(body["generationConfig"]), asObject(body["generation_config"])];
  const find = (names: readonly string[]): number[] =>
    configs.flatMap((config) =>
      names.flatMap((name) => {
        const value = config[name] ?? undefined;
        // Some providers take a number in quotes, too.
        return value === undefined ? [] : (asCount(value) ?? Number.POSITIVE_INFINITY);
      }),
    );
  const counts = find(OUTPUT);
  return counts.length === 0 ? undefined : Math.max(...counts) * Math.max(1, ...find(ANSWERS));
}

const OUTPUT = ["max_tokens", "max_output_tokens", "max_completion_tokens", "maxOutputTokens"];
const ANSWERS = ["n", "candidateCount", "candidate_count"];

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
  return findFields(body).findLast(({ name }) => name === "model")?.text;
}

interface Field {
  readonly name: string;
  /** The bytes of its value, if that is a text. */
  text?: { start: number; end: number };
}

/** The top-level fields of a JSON object. */
function findFields(body: Buffer): Field[] {
  const fields: Field[] = [];
  let depth = 0;
  let field: Field | undefined;
  for (let at = 0; at < body.length; at++) {
    const byte = body[at];
    if (byte === OPEN_BRACE || byte === OPEN_BRACKET) depth += 1;
    else if (byte === CLOSE_BRACE || byte === CLOSE_BRACKET) depth -= 1;
    else if (byte === COMMA && depth === 1) field = undefined;
    if (byte !== QUOTE) continue;
    const end = endOfText(body, at);
    if (depth === 1 && field !== undefined) field.text = { start: at, end };
    else if (depth === 1) {
      // The body is JSON, so its names are.
      field = { name: String(JSON.parse(body.toString("utf8", at, end))) };
      fields.push(field);
    }
    at = end - 1;
  }
  return fields;
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
  for (let wait = until - Date.now(); wait > 0; wait = until - Date.now())
    await sleep(Math.min(wait, LONGEST_SLEEP_MS), undefined, { signal });
}

function parse(body: Buffer): Json {
  try {
    return asObject(JSON.parse(body.toString("utf8")));
  } catch {
    return {};
  }
}
