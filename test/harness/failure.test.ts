import { expect, it } from "vitest";
import { toFailure as toAcpFailure } from "../../src/harness/acp/failure.ts";
import { toFailure as toAmpFailure } from "../../src/harness/amp/turns.ts";
import { toCode as toClaudeCode } from "../../src/harness/claude/failure.ts";
import { toFailure as toCodexFailure } from "../../src/harness/codex/failure.ts";
import { toEventError, toNativeError } from "../../src/harness/opencode/turns.ts";

/** The code that each agent's adapter gives to one HTTP status of the model's provider. */
const CODES: Readonly<Record<string, (status: number) => string | undefined>> = {
  claude: (status) => toClaudeCode({ status, kind: "" }),
  codex: (status) => toCodexFailure({ message: `unexpected status: ${status}` }).error.code,
  opencode: (status) => {
    const told = { name: "APIError", data: { message: "no", statusCode: status } };
    const error = toNativeError(told);
    return error && toEventError(error).code;
  },
  acp: (status) => toAcpFailure({ code: status, message: "no" }).error.code,
  amp: (status) => toAmpFailure(`HTTP ${status}`).error.code,
};

const EXPECTED: readonly (readonly [status: number, code: string])[] = [
  [400, "invalid_request"],
  [401, "unauthorized"],
  [402, "billing"],
  [403, "unauthorized"],
  [429, "rate_limited"],
  [500, "server_error"],
  [502, "server_error"],
  [503, "overloaded"],
  [529, "overloaded"],
];

for (const [agent, codeOf] of Object.entries(CODES)) {
  it.each(EXPECTED)(`${agent}: an answer of status %i is %s`, (status, code) => {
    expect(codeOf(status)).toBe(code);
  });
}
