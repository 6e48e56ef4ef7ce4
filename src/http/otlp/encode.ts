import { SCHEMA_URL } from "./names.ts";
import type { AttributeValue, Span } from "./projection.ts";

export interface Resource {
  readonly version: string;
  readonly attributes: Readonly<Record<string, string>>;
}

/** Spans as the body of an OTLP/HTTP request in JSON: ids in hex, times in nanoseconds as text. */
export function encodeSpans(spans: readonly Span[], { version, attributes }: Resource): string {
  return JSON.stringify({
    resourceSpans: [
      {
        resource: { attributes: toAttributes(attributes) },
        scopeSpans: [{ scope: { name: "sluice", version }, schemaUrl: SCHEMA_URL, spans: spans.map(encode) }],
      },
    ],
  });
}

const KINDS = { internal: 1, client: 3 } as const;
const STATUS_ERROR = 2;

function encode(span: Span): unknown {
  const { traceId, spanId, parentSpanId, name, links, error } = span;
  const attributes = toAttributes({
    ...span.attributes,
    ...(error === undefined ? {} : { "error.type": error }),
  });
  return {
    traceId,
    spanId,
    ...(parentSpanId === undefined ? {} : { parentSpanId }),
    name: toText(name),
    kind: KINDS[span.kind],
    startTimeUnixNano: toNanoseconds(span.start),
    // Clocks may go back; a span does not.
    endTimeUnixNano: toNanoseconds(Math.max(span.start, span.end)),
    attributes,
    ...(links.length === 0 ? {} : { links: links.map(toLink) }),
    status: error === undefined ? {} : { code: STATUS_ERROR },
  };
}

function toLink({ traceId, spanId }: Span["links"][number]): unknown {
  return { traceId, spanId, attributes: [] };
}

function toAttributes(values: Readonly<Record<string, AttributeValue | undefined>>): unknown[] {
  return Object.entries(values).flatMap(([key, value]) =>
    value === undefined ? [] : [{ key, value: toValue(value) }],
  );
}

function toValue(value: AttributeValue): unknown {
  if (typeof value === "string") return { stringValue: toText(value) };
  if (typeof value !== "number") return { arrayValue: { values: value.map(toValue) } };
  return Number.isSafeInteger(value) ? { intValue: String(value) } : { doubleValue: value };
}

/** Names may come from an agent. */
function toText(text: string): string {
  return text.length > 256 ? text.slice(0, 256) : text;
}

function toNanoseconds(ms: number): string {
  return (BigInt(Math.round(ms)) * 1_000_000n).toString();
}
