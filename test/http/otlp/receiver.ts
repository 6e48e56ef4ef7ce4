import { once } from "node:events";
import { createServer, type IncomingHttpHeaders } from "node:http";
import type { AddressInfo } from "node:net";
import { z } from "zod";

const Hex = (length: number) => z.string().regex(new RegExp(`^(?!0+$)[0-9a-f]{${length}}$`));
const Nanoseconds = z.string().regex(/^\d{19}$/);
const Scalar = z.union([
  z.strictObject({ stringValue: z.string() }),
  z.strictObject({ intValue: z.string().regex(/^-?\d+$/) }),
  z.strictObject({ doubleValue: z.number() }),
]);
const Value = z.union([Scalar, z.strictObject({ arrayValue: z.strictObject({ values: z.array(Scalar) }) })]);
const Attributes = z
  .array(z.strictObject({ key: z.string().min(1), value: Value }))
  .refine((list) => new Set(list.map(({ key }) => key)).size === list.length, "a key twice");

/** A span in the JSON of `opentelemetry/proto/trace/v1/trace.proto`. */
const ReceivedSpan = z.strictObject({
  traceId: Hex(32),
  spanId: Hex(16),
  parentSpanId: Hex(16).optional(),
  name: z.string().min(1),
  kind: z.int().min(0).max(5),
  startTimeUnixNano: Nanoseconds,
  endTimeUnixNano: Nanoseconds,
  attributes: Attributes,
  links: z.array(z.strictObject({ traceId: Hex(32), spanId: Hex(16), attributes: Attributes })).optional(),
  status: z.strictObject({ code: z.int().min(0).max(2).optional(), message: z.string().optional() }),
});
export type ReceivedSpan = z.infer<typeof ReceivedSpan>;

/** `ExportTraceServiceRequest`. */
export const ExportRequest = z.strictObject({
  resourceSpans: z.array(
    z.strictObject({
      resource: z.strictObject({ attributes: Attributes }),
      scopeSpans: z.array(
        z.strictObject({
          scope: z.strictObject({ name: z.string(), version: z.string() }),
          schemaUrl: z.url(),
          spans: z.array(ReceivedSpan).min(1),
        }),
      ),
    }),
  ),
});

export interface Receiver {
  readonly url: string;
  readonly requests: {
    headers: IncomingHttpHeaders;
    path: string;
    body: z.infer<typeof ExportRequest>;
    text: string;
  }[];
  /** The statuses of the next answers; then 200. */
  readonly answers: number[];
  spans(): ReceivedSpan[];
  close(): Promise<void>;
}

/** A collector that checks what it gets against the published form, and answers as told. */
export async function startReceiver(): Promise<Receiver> {
  const requests: Receiver["requests"] = [];
  const answers: number[] = [];
  const taken: ReceivedSpan[] = [];
  const server = createServer((request, response) => {
    let text = "";
    request.on("data", (chunk: Buffer) => (text += chunk.toString("utf8")));
    request.on("end", () => {
      const parsed = ExportRequest.safeParse(JSON.parse(text));
      if (!parsed.success) {
        requests.push({
          headers: request.headers,
          path: "INVALID",
          body: { resourceSpans: [] },
          text: z.prettifyError(parsed.error),
        });
        return void response.writeHead(400).end();
      }
      requests.push({ headers: request.headers, path: request.url ?? "", body: parsed.data, text });
      const status = answers.shift() ?? 200;
      if (status === 200)
        taken.push(
          ...parsed.data.resourceSpans.flatMap(({ scopeSpans }) => scopeSpans.flatMap(({ spans }) => spans)),
        );
      response.writeHead(status, { "content-type": "application/json" }).end("{}");
    });
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    requests,
    answers,
    spans: () => [...taken],
    async close() {
      server.closeAllConnections();
      server.close();
    },
  };
}

export function attributeOf(span: ReceivedSpan, key: string): string | number | undefined {
  const value = span.attributes.find((attribute) => attribute.key === key)?.value;
  if (value === undefined) return undefined;
  if ("stringValue" in value) return value.stringValue;
  if ("intValue" in value) return Number(value.intValue);
  return "doubleValue" in value ? value.doubleValue : JSON.stringify(value);
}
