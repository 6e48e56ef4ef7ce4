import { expect } from "vitest";
import { type Event, ofType } from "../../http/anthropic/session-bench.ts";

export const idle = (events: readonly Event[]) => ofType(events, "session.status_idle").at(-1);
export const confirm = (tool_use_id: string | undefined, rest: object = { result: "allow" }) => ({
  type: "user.tool_confirmation",
  tool_use_id,
  ...rest,
});
export const customResult = (
  custom_tool_use_id: string | undefined,
  content: object[],
  rest: object = {},
) => ({
  type: "user.custom_tool_result",
  custom_tool_use_id,
  content,
  ...rest,
});
export const toolResult = (tool_use_id: string | undefined, content: object[], rest: object = {}) => ({
  type: "user.tool_result",
  tool_use_id,
  content,
  ...rest,
});
export const block = (words: string) => ({ type: "text", text: words });
export const system = (words: string) => ({ type: "system.message", content: [block(words)] });
/** A late answer fails in one request: the SDK does not retry. */
export const CLOSED = {
  status: 409,
  headers: expect.toSatisfy((given: Headers) => given.get("x-should-retry") === "false"),
};
export const errorsOf = (events: readonly Event[]) =>
  ofType(events, "session.error").map(({ error }) => [error.type, error.retry_status.type]);
export const BAD = { status: 400, type: "invalid_request_error" };
