import { type ErrorCode, type Problem, SluiceFailure } from "../contract/errors.ts";

/** `unreachable` means that no answer came. Every other code is the server's. */
export type ClientErrorCode = ErrorCode | "unreachable";

/** The server's error with its fields, or a failure to reach the server. */
export class SluiceClientError extends SluiceFailure {
  readonly code: ClientErrorCode;

  constructor(problem: Problem, options: ErrorOptions & { retryable?: boolean } = {}) {
    const { type, title, status, detail, retryable = isTransient(status), ...facts } = problem;
    super(detail || title, { status, title, retryable: options.retryable ?? retryable, facts }, options);
    this.name = "SluiceClientError";
    this.code = type.replace(/^urn:sluice:error:/, "") as ClientErrorCode;
  }
}

/** Whether a retry may help, for answers without the field `retryable`, such as a proxy's page. */
function isTransient(status: number): boolean {
  return status === 0 || status === 408 || status === 429 || status >= 500;
}

export function toUnreachable(url: string, cause: unknown): SluiceClientError {
  const why = reasonOf(cause);
  return new SluiceClientError(
    {
      type: "urn:sluice:error:unreachable",
      title: "The server cannot be reached",
      status: 0,
      detail: `No answer from ${url}${why ? ` (${why})` : ""}. Is \`sluice serve\` running there?`,
    },
    { cause },
  );
}

/** The answer to a path whose id no server can have. */
export function toNotFound(path: string): SluiceClientError {
  const isSession = path.startsWith("/v1/sessions/");
  const [code, title] = isSession
    ? ["session_not_found", "There is no such session"]
    : ["not_found", "There is nothing here"];
  const detail = `${path} has no id. "", "." and ".." are none.`;
  return new SluiceClientError({ type: `urn:sluice:error:${code}`, title, status: 404, detail });
}

/** `retryable` is false if a retry would give the same bytes. */
export function toStreamError(
  detail: string,
  options: ErrorOptions & { retryable?: boolean } = {},
): SluiceClientError {
  const title = "The stream broke";
  return new SluiceClientError(
    { type: "urn:sluice:error:stream_error", title, status: 502, detail },
    options,
  );
}

/** The error of a response. It may lack a problem document, as a proxy's page does. */
export async function fromResponse(response: Response): Promise<SluiceClientError> {
  const text = await response.text().catch(() => "");
  return new SluiceClientError(parseProblem(text) ?? unknownProblem(response, text));
}

function parseProblem(text: string): Problem | undefined {
  try {
    const body = JSON.parse(text) as Partial<Problem> | null;
    if (typeof body?.type !== "string" || typeof body.status !== "number") return undefined;
    const { retryable, ...rest } = body;
    return {
      ...rest,
      ...(typeof retryable === "boolean" && { retryable }),
      type: body.type,
      status: body.status,
      title: body.title ?? "",
      detail: body.detail ?? "",
    };
  } catch {
    return undefined;
  }
}

function unknownProblem(response: Response, text: string): Problem {
  const excerpt = text.trim().slice(0, 200);
  return {
    type: `urn:sluice:error:${codeOfStatus(response.status)}`,
    title: response.statusText || `HTTP ${response.status}`,
    status: response.status,
    detail: `The server answered ${response.status} without saying why${excerpt ? `: ${excerpt}` : "."}`,
  };
}

function codeOfStatus(status: number): ClientErrorCode {
  if (status === 401) return "token_invalid";
  if (status === 403) return "permission_denied";
  if (status === 404) return "not_found";
  if (status === 405) return "method_not_allowed";
  if (status === 413) return "too_large";
  if (status >= 500) return "stream_error";
  return "invalid_request";
}

function reasonOf(cause: unknown): string {
  if (!(cause instanceof Error)) return "";
  const inner = cause.cause;
  if (inner instanceof Error) return "code" in inner ? String(inner.code) : inner.message;
  return cause.message;
}
