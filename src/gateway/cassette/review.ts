import { AnswerReader } from "../answer-reader.ts";
import type { AnswerFacts } from "../wire.ts";
import { WIRES_BY_ID } from "../paths.ts";
import { type Exchange, formatExchange, toBody } from "./format.ts";
import { compareShapes, type Scrub } from "./mask.ts";
import { scrubChunks, withPatterns } from "./scrub.ts";

/** The facts in the answer of an exchange: its model, usage and stop reason. */
export function readFacts({ wire, response }: Exchange): AnswerFacts {
  const known = WIRES_BY_ID.get(wire);
  if (known === undefined) return {};
  const reader = new AnswerReader(known, response.headers["content-type"]?.[0]);
  reader.write(toBody({ response }));
  reader.end();
  return reader.facts;
}

export type CassetteChange =
  | { readonly kind: "same" | "answer" | "gone" | "new"; readonly at: number; readonly exchange: Exchange }
  /** The same place in the order, with another request. */
  | { readonly kind: "request"; readonly at: number; readonly exchange: Exchange; readonly path: string };

/** How two cassettes differ: by key first; requests without a partner are paired in their order. */
export function compareCassettes(one: readonly Exchange[], other: readonly Exchange[]): CassetteChange[] {
  const rest = [...other.entries()];
  const take = (isWanted: (exchange: Exchange) => boolean): [number, Exchange] | undefined => {
    const at = rest.findIndex(([, exchange]) => isWanted(exchange));
    return at < 0 ? undefined : rest.splice(at, 1)[0];
  };
  const partners = one.map(
    (exchange) =>
      take(({ key, lane }) => key === exchange.key && lane === exchange.lane) ??
      take(({ key }) => key === exchange.key),
  );
  const changes = one.map((exchange, at): CassetteChange => {
    const partner = partners[at]?.[1];
    if (partner !== undefined)
      return { kind: isSameAnswer(exchange, partner) ? "same" : "answer", at, exchange };
    const { method, path } = exchange.request;
    const like = take(({ request }) => request.method === method && request.path === path)?.[1];
    if (like === undefined) return { kind: "gone", at, exchange };
    const difference = compareShapes(exchange.request.shape, like.request.shape);
    return { kind: "request", at, exchange, path: difference?.path ?? "/" };
  });
  return [...changes, ...rest.map(([at, exchange]): CassetteChange => ({ kind: "new", at, exchange }))];
}

function isSameAnswer(one: Exchange, other: Exchange): boolean {
  const isStatus = one.response.status === other.response.status && one.cut === other.cut;
  return isStatus && toBody(one).equals(toBody(other));
}

/** An exchange without private data; the same object where there is none. */
export function scrubExchange(exchange: Exchange, values: Scrub): Exchange {
  const scrub = withPatterns(values);
  const { response, request, lane } = exchange;
  const isStream = /^text\/event-stream\b/i.test(response.headers["content-type"]?.[0] ?? "");
  const asText = (text: string): string => scrub(Buffer.from(text)).toString("utf8");
  const headers = Object.entries(response.headers).map(([name, texts]) => [name, texts.map(asText)]);
  const clean: Exchange = {
    ...exchange,
    ...(lane === undefined ? {} : { lane: asText(lane) }),
    request: {
      ...request,
      path: asText(request.path),
      ...(request.model === undefined ? {} : { model: asText(request.model) }),
    },
    response: {
      ...response,
      headers: Object.fromEntries(headers) as typeof response.headers,
      chunks: scrubChunks(response.chunks, { scrub, isStream }),
    },
  };
  return formatExchange(clean) === formatExchange(exchange) ? exchange : clean;
}
