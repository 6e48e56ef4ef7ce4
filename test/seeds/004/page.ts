/**
 * The page of seed 004, key by key, written from its tables alone. It knows nothing of the contract's own schemas,
 * so that the two can be compared.
 */
type Check = (value: unknown, at: string) => string[];

const kind =
  (name: string, test: (value: unknown) => boolean): Check =>
  (value, at) =>
    test(value) ? [] : [`${at} is no ${name}: ${JSON.stringify(value)?.slice(0, 80)}`];

const string = kind("string", (value) => typeof value === "string");
const integer = kind("integer", Number.isInteger);
const boolean = kind("boolean", (value) => typeof value === "boolean");
const any: Check = () => [];
const oneOf = (...values: string[]): Check =>
  kind(`one of ${values.join(", ")}`, (value) => values.includes(value as string));
const listOf =
  (entry: Check): Check =>
  (value, at) =>
    Array.isArray(value)
      ? value.flatMap((one, index) => entry(one, `${at}[${index}]`))
      : [`${at} is no list: ${JSON.stringify(value)}`];

/** Exactly these keys; a name that ends in `?` may be absent. */
const object =
  (shape: Record<string, Check>): Check =>
  (value, at) => {
    if (typeof value !== "object" || value === null || Array.isArray(value)) return [`${at} is no object`];
    const given = value as Record<string, unknown>;
    const known = new Map(Object.entries(shape).map(([name, check]) => [name.replace(/\?$/, ""), check]));
    const extra = Object.keys(given)
      .filter((key) => !known.has(key))
      .map((key) => `${at}.${key} is on no page`);
    const missing = Object.keys(shape)
      .filter((name) => !name.endsWith("?") && !(name in given))
      .map((name) => `${at}.${name} is missing`);
    const wrong = Object.keys(given).flatMap((key) => known.get(key)?.(given[key], `${at}.${key}`) ?? []);
    return [...extra, ...missing, ...wrong];
  };

export const PARTS: Record<string, Check> = {
  text: object({ type: string, text: string }),
  json: object({ type: string, json: any }),
  tool_call: object({ type: string, name: string, arguments: string, call_id: string }),
  tool_result: object({ type: string, call_id: string, output: string }),
  file_ref: object({ type: string, path: string, action: oneOf("read", "write", "patch"), "diff?": string }),
  image: object({ type: string, path: string, "mime?": string }),
  reasoning: object({ type: string, text: string, visibility: oneOf("public", "private") }),
  status: object({ type: string, label: string, "detail?": string }),
};

const part: Check = (value, at) => {
  const check = PARTS[String((value as { type?: unknown } | null)?.type)];
  return check ? check(value, at) : [`${at} is no content part of the page: ${JSON.stringify(value)}`];
};

const item = object({
  item_id: string,
  "native_item_id?": string,
  "parent_id?": string,
  kind: oneOf("message", "tool_call", "tool_result", "system", "status", "unknown"),
  "role?": oneOf("user", "assistant", "system", "tool"),
  status: oneOf("in_progress", "completed", "failed"),
  content: listOf(part),
});

const stderr = object({ "head?": string, "tail?": string, truncated: boolean, "total_lines?": integer });
const permission = (status: Check): Check =>
  object({ permission_id: string, action: string, status, "metadata?": any });
const question = { question_id: string, prompt: string, options: listOf(string) };

export const DATA: Record<string, Check> = {
  "session.started": object({ "metadata?": any }),
  "session.ended": object({
    reason: oneOf("completed", "error", "terminated"),
    terminated_by: oneOf("agent", "daemon"),
    "message?": string,
    "exit_code?": integer,
    "stderr?": stderr,
  }),
  "item.started": object({ item }),
  "item.delta": object({ item_id: string, "native_item_id?": string, delta: string }),
  "item.completed": object({ item }),
  "permission.requested": permission(oneOf("requested")),
  "permission.resolved": permission(oneOf("approved", "denied")),
  "question.requested": object({ ...question, status: oneOf("requested") }),
  "question.resolved": object({ ...question, status: oneOf("answered", "rejected"), "response?": string }),
  error: object({ message: string, "code?": string, "details?": any }),
  "agent.unparsed": object({ error: string, location: string, "raw_hash?": string }),
};

const RFC3339 = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)$/;

const envelope: Record<string, Check> = {
  event_id: string,
  sequence: integer,
  time: kind(
    "RFC3339 time",
    (value) => RFC3339.test(String(value)) && !Number.isNaN(Date.parse(String(value))),
  ),
  session_id: string,
  "native_session_id?": string,
  source: oneOf("agent", "daemon"),
  synthetic: boolean,
  type: oneOf(...Object.keys(DATA)),
  // The two keys that sluice adds beside the page's own.
  "turn_id?": string,
  "parent_id?": string,
};

/** The event's differences from the page; empty for a valid event. */
export function offences(
  event: { type: string; sequence: number },
  options: { raw?: boolean } = {},
): string[] {
  const data: Check = DATA[event.type] ?? (() => [`there is no type ${event.type}`]);
  const check = object({ ...envelope, data, ...(options.raw === true ? { "raw?": any } : {}) });
  return check(event, `#${event.sequence} ${event.type}`);
}
