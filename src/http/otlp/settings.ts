/** Where spans go, by the options of the server and OpenTelemetry's own variables. */
export interface OtlpSettings {
  /** The whole URL of the traces. */
  readonly url: string;
  /** May hold a credential. */
  readonly headers: Readonly<Record<string, string>>;
  readonly attributes: Readonly<Record<string, string>>;
}

/** The settings; undefined where nothing is to be exported. A wrong value throws a `TypeError` that names it. */
export function readOtlpSettings(
  given: string | undefined,
  env: Readonly<Record<string, string | undefined>> = process.env,
): OtlpSettings | undefined {
  const isOff = env["OTEL_SDK_DISABLED"]?.toLowerCase() === "true" || env["OTEL_TRACES_EXPORTER"] === "none";
  const protocol = env["OTEL_EXPORTER_OTLP_TRACES_PROTOCOL"] || env["OTEL_EXPORTER_OTLP_PROTOCOL"];
  // The variables are often those of other programs, which speak gRPC.
  const isOther = protocol === "grpc";
  if (given === undefined && (isOff || isOther)) return undefined;
  const traces = given === undefined ? env["OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"] || undefined : undefined;
  const base = given ?? (env["OTEL_EXPORTER_OTLP_ENDPOINT"] || undefined);
  const url =
    traces === undefined ? base && toTraces(base) : parse(traces, "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT").href;
  if (url === undefined) return undefined;
  const headers = env["OTEL_EXPORTER_OTLP_TRACES_HEADERS"] || env["OTEL_EXPORTER_OTLP_HEADERS"];
  const name = env["OTEL_SERVICE_NAME"];
  return {
    url,
    headers: readPairs(headers, "OTEL_EXPORTER_OTLP_HEADERS", /^[!#$%&'*+.^_`|~\w-]+$/),
    attributes: {
      "service.name": "sluice",
      ...readPairs(env["OTEL_RESOURCE_ATTRIBUTES"], "OTEL_RESOURCE_ATTRIBUTES", /^[^\s=,]+$/),
      ...(name ? { "service.name": name } : {}),
    },
  };
}

/** A collector's address, or already that of its traces. */
function toTraces(text: string): string {
  const url = parse(text, "--otlp or OTEL_EXPORTER_OTLP_ENDPOINT");
  const path = url.pathname.replace(/\/+$/, "");
  if (!path.endsWith("/v1/traces")) url.pathname = `${path}/v1/traces`;
  return url.href;
}

function parse(text: string, name: string): URL {
  const url = URL.canParse(text) ? new URL(text) : undefined;
  if (url && (url.protocol === "http:" || url.protocol === "https:") && url.username === "") return url;
  // The value may hold a credential.
  throw new TypeError(
    `${name}: expected a URL such as http://127.0.0.1:4318, without a user; a credential goes into OTEL_EXPORTER_OTLP_HEADERS.`,
  );
}

/** `name=value,name=value`, percent-encoded, as OpenTelemetry writes lists. */
function readPairs(text: string | undefined, variable: string, pattern: RegExp): Record<string, string> {
  const pairs = (text ?? "").split(",").filter((part) => part.trim() !== "");
  return Object.fromEntries(
    pairs.map((part) => {
      const at = part.indexOf("=");
      const name = part.slice(0, Math.max(0, at)).trim();
      const value = decode(part.slice(at + 1).trim());
      if (pattern.test(name) && value !== undefined && !/[\r\n]/.test(value)) return [name, value];
      throw new TypeError(
        `${variable}: expected name=value pairs with commas between them, percent-encoded.`,
      );
    }),
  );
}

function decode(text: string): string | undefined {
  try {
    return decodeURIComponent(text);
  } catch {
    return undefined;
  }
}
