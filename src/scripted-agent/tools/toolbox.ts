import type { ToolSettings } from "../../contract/index.ts";
import { commonToolName } from "../../contract/tool-names.ts";
import { ruleOf } from "../../contract/tool-names.ts";
import { Scope } from "../agent.ts";
import { Halted } from "../halt.ts";
import type { BareToolStep, Step, ToolStep } from "../step.ts";
import type { Execution, Tool, ToolOutcome } from "./calls.ts";
import { deleteTool, editTool, foreseenWrite, readTool, writeTool } from "./files.ts";
import { McpFailure } from "./mcp-connection.ts";
import { runShell } from "./shell.ts";

/** Performs the steps of a sub-agent. */
type Perform = (scope: Scope, steps: readonly Step[]) => Promise<void>;

export function toTool(step: ToolStep, perform: Perform): Tool {
  const asks = step.do === "ask";
  return { ...bare(asks ? step.tool : step, perform), asks };
}

/** Applies the session's settings to a tool: it may ask for permission, or run in the application. */
export function applySettings(tools: ToolSettings, tool: Tool): Tool {
  if (tool.runsInApplication === true || tool.name === "subagent") return tool;
  const name = commonToolName(tool.name);
  const rule = ruleOf(tools, name);
  // A disabled tool asks too: the session's policy then rejects the call.
  const disabled = rule === "deny";
  const asks = tool.asks || rule === "ask" || disabled;
  if (tools.client?.includes(name) !== true) return { ...tool, asks, disabled };
  const { name: native, input } = tool;
  const run = async (execution: Execution): Promise<ToolOutcome> => {
    const { echo: _, ...outcome } = await runCustom({ name: native, input, builtin: true }, execution);
    return outcome;
  };
  return { name: native, input, asks, disabled, runsInApplication: true, run };
}

function bare(step: BareToolStep, perform: Perform): Omit<Tool, "asks"> {
  switch (step.do) {
    case "shell":
      return {
        name: "shell",
        input: { command: step.command },
        run: (execution) => runShell(step.command, execution),
      };
    case "write": {
      const { path, content } = step;
      return {
        name: "write",
        input: { path, content },
        file: () => foreseenWrite(path, content),
        run: () => writeTool(path, content),
      };
    }
    case "edit": {
      const input = { path: step.path, old: step.old, new: step.new };
      return { name: "edit", input, run: () => editTool(step.path, step) };
    }
    case "read":
      return { name: "read", input: { path: step.path }, run: () => readTool(step.path) };
    case "delete":
      return { name: "delete", input: { path: step.path }, run: () => deleteTool(step.path) };
    case "custom":
      return {
        name: step.name,
        input: step.input,
        runsInApplication: true,
        run: (execution) => runCustom(step, execution),
      };
    case "mcp":
      return {
        name: `mcp__${step.server}__${step.tool}`,
        input: step.input,
        run: (execution) => runMcp(step, execution),
      };
    case "subagent":
      return {
        name: "subagent",
        input: { name: step.name },
        run: (execution) => runSubagent(step, execution, perform),
      };
  }
}

async function runCustom(
  step: { name: string; input: unknown; builtin?: true },
  { id: call, scope, signal }: Execution,
): Promise<ToolOutcome> {
  const id = scope.agent.ids.next("treq");
  const answer = scope.agent.answers.wait("tool_result", id, signal);
  const { name, input, builtin } = step;
  scope.emit({ type: "tool.asked", id, call, name, input, ...(builtin && { builtin }), ...scope.parent });
  const { output, failed } = await answer;
  return { output, failed: failed ?? false, echo: output };
}

async function runMcp(
  step: { server: string; tool: string; input: unknown },
  { scope, signal }: Execution,
): Promise<ToolOutcome> {
  try {
    return await scope.agent.mcp.call(step.server, step.tool, { input: step.input, signal });
  } catch (error) {
    if (error instanceof McpFailure) {
      const code = error.unauthorized ? "mcp_authentication_failed" : "mcp_connection_failed";
      const details = { server: error.server };
      scope.emit({ type: "error", code, message: error.message, details, ...scope.parent });
    }
    throw error;
  }
}

async function runSubagent(
  step: Extract<BareToolStep, { do: "subagent" }>,
  { id, scope, signal }: Execution,
  perform: Perform,
): Promise<ToolOutcome> {
  const nested = new Scope(scope.agent, { signal, parent: id });
  nested.openRequest();
  try {
    await perform(nested, step.steps);
    return { output: nested.lastText || `${step.name} is done.` };
  } catch (error) {
    if (error instanceof Halted) throw error;
    return { failed: true, output: error instanceof Error ? error.message : String(error) };
  } finally {
    nested.closeRequest();
  }
}
