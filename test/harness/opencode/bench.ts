import { describe } from "vitest";
import { opencode } from "../../../src/harness/opencode/harness.ts";
import { requireAgent } from "../../support/agents.ts";
import { type AgentBench, openBench, type ToSpec } from "../agentBench.ts";

const { path, reason } = requireAgent("opencode");
const toSpec: ToSpec = ({ url }) => ({
  agent: "opencode",
  model: "scripted",
  env: { OPENAI_BASE_URL: `${url}/v1` },
});

/** Tests of the real OpenCode, each file with a bench of its own; skipped where there is none. */
export function describeOpenCode(tests: () => void): void {
  const title = `the real OpenCode${reason === undefined ? "" : ` (${reason})`}`;
  describe.skipIf(path === undefined)(title, { timeout: 120_000 }, tests);
}

export function openOpenCode(): Promise<AgentBench> {
  return openBench(opencode, toSpec);
}
