/** The one table of errors. Dialects map its codes and have no texts of their own. */
export const ERRORS = {
  invalid_request: { status: 400, title: "The request is not valid" },
  invalid_cursor: { status: 400, title: "The cursor is not valid" },
  unsupported_agent: { status: 400, title: "There is no such agent" },
  unsupported_sandbox: { status: 400, title: "The sandbox is not available" },
  capability_missing: { status: 400, title: "The sandbox cannot do that" },
  mode_not_supported: { status: 400, title: "The agent has no such mode" },
  foreign_host: { status: 421, title: "The Host header names another server" },
  foreign_origin: { status: 403, title: "The Origin is not allowed" },
  token_invalid: { status: 401, title: "The token is missing or wrong" },
  permission_denied: { status: 403, title: "Not permitted" },
  agent_not_installed: { status: 404, title: "The agent is not installed" },
  not_found: { status: 404, title: "There is nothing here" },
  session_not_found: { status: 404, title: "There is no such session" },
  action_not_found: { status: 404, title: "There is no such open request" },
  input_not_found: { status: 404, title: "There is no such input" },
  checkpoint_not_found: { status: 404, title: "There is no such checkpoint" },
  file_not_found: { status: 404, title: "There is no such file" },
  method_not_allowed: { status: 405, title: "The path has no such method" },
  session_already_exists: { status: 409, title: "The session exists already" },
  session_ended: { status: 409, title: "The session has ended" },
  session_busy: { status: 409, title: "The session is busy" },
  already_resolved: { status: 409, title: "The request was answered already" },
  input_not_waiting: { status: 409, title: "The input no longer waits" },
  idempotency_conflict: { status: 409, title: "The idempotency key was used for another request" },
  version_conflict: { status: 409, title: "Somebody else has changed it meanwhile" },
  name_taken: { status: 409, title: "The name is taken" },
  cursor_gone: { status: 410, title: "The cursor cannot be served" },
  precondition_failed: { status: 412, title: "The precondition does not hold" },
  too_large: { status: 413, title: "The request is too large" },
  rate_limited: { status: 429, title: "Too many requests", retryable: true },
  internal: { status: 500, title: "Something went wrong inside sluice" },
  agent_process_exited: { status: 500, title: "The agent's process exited" },
  fenced: { status: 500, title: "Another writer has taken the session over", retryable: true },
  stream_error: { status: 502, title: "The stream broke", retryable: true },
  storage_unavailable: { status: 503, title: "The database cannot be reached", retryable: true },
  draining: { status: 503, title: "The server is shutting down", retryable: true },
  sandbox_unreachable: { status: 503, title: "The sandbox cannot be reached now", retryable: true },
  timeout: { status: 504, title: "It took too long", retryable: true },
  storage_full: { status: 507, title: "The disk is full", retryable: true },
  data_version: { status: 500, title: "The data folder is of another version" },
  unsupported_database: { status: 500, title: "The database cannot be used" },
} as const satisfies Record<string, ErrorRow>;

interface ErrorRow {
  readonly status: number;
  readonly title: string;
  readonly retryable?: boolean;
}

export type ErrorCode = keyof typeof ERRORS;

/**
 * The base of every error of sluice, in the server and in its clients. Its message says what happened and what to do.
 */
export abstract class SluiceFailure extends Error {
  abstract readonly code: string;
  /** The HTTP status; 0 if no answer came. */
  readonly status: number;
  readonly title: string;
  /** Whether the same request may succeed later. */
  readonly retryable: boolean;
  readonly facts: Record<string, unknown>;

  constructor(
    detail: string,
    row: { status: number; title: string; retryable: boolean; facts: Record<string, unknown> },
    options?: ErrorOptions,
  ) {
    super(detail, options);
    this.status = row.status;
    this.title = row.title;
    this.retryable = row.retryable;
    this.facts = row.facts;
  }

  get detail(): string {
    return this.message;
  }
}

/** An error of the engine, the server or the SDK. */
export class SluiceError extends SluiceFailure {
  readonly code: ErrorCode;

  /** `options.retryable` takes the place of the code's own `retryable`. */
  constructor(
    code: ErrorCode,
    detail: string,
    facts: Record<string, unknown> = {},
    options?: ErrorOptions & { retryable?: boolean },
  ) {
    const { status, title, retryable = false }: ErrorRow = ERRORS[code];
    super(detail, { status, title, retryable: options?.retryable ?? retryable, facts }, options);
    this.name = "SluiceError";
    this.code = code;
  }
}

/** An RFC 9457 problem document. */
export interface Problem {
  type: string;
  title: string;
  status: number;
  detail: string;
  /** Whether the same request may succeed later. Absent in an answer of a server other than sluice. */
  retryable?: boolean;
  [fact: string]: unknown;
}

export function toProblem(error: SluiceError): Problem {
  return {
    ...error.facts,
    type: `urn:sluice:error:${error.code}`,
    title: error.title,
    status: error.status,
    detail: error.message,
    retryable: error.retryable,
  };
}
