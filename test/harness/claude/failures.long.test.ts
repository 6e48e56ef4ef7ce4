import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { claude } from "../../../src/harness/claude/harness.ts";
import type { HarnessFact } from "../../../src/harness/port.ts";
import { recordedContext } from "../../../src/harness/recording.ts";
import { CLAUDE } from "../live-agents.ts";

const FAILED = {
  type: "result",
  subtype: "success",
  is_error: true,
  terminal_reason: "api_error",
  api_error_status: null,
};

describe("how Claude Code ends, in lines of its own", () => {
  it("has no login", () => {
    const ended = decoded(
      {
        type: "assistant",
        message: { id: "m", content: [{ type: "text", text: "Not logged in" }] },
        error: "authentication_failed",
      },
      { ...FAILED, result: "Not logged in · Please run /login" },
    );
    expect(ended.map(({ type }) => type)).toEqual(["error", "turn.ended"]);
    expect(ended.at(-1)?.data).toMatchObject({ stop_reason: "model_error", error: { code: "unauthorized" } });
  });

  it("runs out of output, which is no failure", () => {
    const [ended] = decoded({ ...FAILED, api_error: "max_output_tokens", result: "" });
    expect(ended?.data).toMatchObject({ status: "completed", stop_reason: "max_tokens" });
  });

  it("runs out of credit, of turns and of words of its own", () => {
    const end = (result: object) => decoded({ ...FAILED, ...result }).at(-1)?.data;
    expect(end({ api_error_status: 400, result: "Your credit balance is too low" })).toMatchObject({
      stop_reason: "model_error",
      error: { code: "billing" },
    });
    expect(end({ subtype: "error_max_turns", terminal_reason: "max_turns" })).toMatchObject({
      stop_reason: "max_turns",
    });
    expect(
      end({ subtype: "error_during_execution", terminal_reason: "model_error", errors: ["odd"] }),
    ).toMatchObject({
      status: "failed",
      stop_reason: "end_turn",
      error: { code: "internal", message: "odd" },
    });
  });

  it("is not ended by a sub-agent that failed, nor twice", () => {
    const facts = decoded(
      {
        type: "assistant",
        message: { id: "m", content: [] },
        parent_tool_use_id: "t",
        error: "max_output_tokens",
      },
      { type: "result", subtype: "success", is_error: false, result: "Done." },
      { type: "result", subtype: "success", is_error: false, result: "Again." },
    );
    expect(facts.filter(({ type }) => type === "turn.ended")).toHaveLength(1);
    expect(facts.at(-1)?.data).toMatchObject({ status: "completed", stop_reason: "end_turn" });
  });

  it("keeps unknown failures", () => {
    const [line, news] = decoded({ type: "brand_new" }, { type: "system", subtype: "brand_new" });
    expect([line?.type, news?.type]).toEqual(["agent.unparsed", "agent.unparsed"]);
  });
});

function decoded(...lines: readonly object[]): Exclude<HarnessFact, { type: "model.failed" }>[] {
  const prompt = { type: "user", message: { role: "user", content: [{ type: "text", text: "Hello" }] } };
  let { state } = claude.decode(claude.initial(recordedContext("claude")), {
    dir: "in",
    text: JSON.stringify(prompt),
    at: 0,
  });
  return lines.flatMap((line, at) => {
    const decoded = claude.decode(state, { dir: "out", text: JSON.stringify(line), at });
    state = decoded.state;
    return decoded.facts.filter((fact) => fact.type !== "model.failed");
  });
}

describe("Claude Code without an installed CLI", () => {
  it("is refused with the command that installs it", async () => {
    const { PATH } = process.env;
    const bench = await CLAUDE.open();
    try {
      process.env["PATH"] = join(tmpdir(), "sluice-no-such-folder");
      const missing = {
        code: "agent_not_installed",
        message: expect.stringContaining("npm install -g @anthropic-ai"),
      };
      await expect(bench.create("none")).rejects.toMatchObject(missing);
    } finally {
      process.env["PATH"] = PATH;
      await bench.close();
    }
  });
});
