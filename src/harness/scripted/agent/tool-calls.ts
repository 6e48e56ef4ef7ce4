import type { AgentLine } from "../protocol.ts";
import { Halted } from "./halted.ts";
import type { Scope } from "./scope.ts";
import type { Tool, ToolOutcome } from "./tool.ts";

/** A call that has been made and not yet carried out. */
export interface Called {
  readonly id: string;
  readonly tool: Tool;
}

export function callTool(scope: Scope, tool: Tool): Called {
  const id = scope.agent.ids.next("call");
  scope.produce(JSON.stringify(tool.input).length);
  const { name, input } = tool;
  const file = tool.file?.();
  scope.emit({ type: "tool.called", id, name, input, ...(file && { file }), ...scope.parent });
  return { id, tool };
}

/** Carries a call out and answers what the agent says about it afterwards, if anything. */
export async function executeTool(scope: Scope, { id, tool }: Called): Promise<string | undefined> {
  const streamed: string[] = [];
  const end = (outcome: ToolOutcome & { interrupted?: boolean }) => {
    if (scope.muted) return;
    const head: Partial<AgentLine> = {
      type: "tool.ended",
      id,
      failed: outcome.failed ?? false,
      ...(outcome.exitCode === undefined ? {} : { exit_code: outcome.exitCode }),
      ...(outcome.interrupted === true ? { interrupted: true } : {}),
      ...(outcome.file === undefined ? {} : { file: outcome.file }),
    };
    scope.agent.output.longLine(head, "output", outcome.output === undefined ? streamed : [outcome.output]);
  };
  try {
    const rejection = tool.asks ? await askPermission(scope, { id, tool }) : undefined;
    if (rejection !== undefined) {
      end({ failed: true, output: rejection });
      return undefined;
    }
    scope.signal.throwIfAborted();
    if (tool.elsewhere !== true) scope.emit({ type: "tool.started", id });
    const outcome = await tool.run({
      id,
      scope,
      signal: scope.signal,
      stream: async (text) => {
        streamed.push(text);
        scope.emit({ type: "tool.output", id, text });
        await scope.agent.output.drained();
      },
    });
    end(outcome);
    return outcome.echo;
  } catch (error) {
    if (!(error instanceof Halted)) {
      end({ failed: true, output: error instanceof Error ? error.message : String(error) });
      return undefined;
    }
    end({ failed: true, interrupted: true, ...(streamed.length > 0 ? {} : { output: "Interrupted." }) });
    throw error;
  }
}

/** What the agent is told when it may not; undefined when it may. */
async function askPermission(scope: Scope, { id: call, tool }: Called): Promise<string | undefined> {
  const { allowed, ids, answers } = scope.agent;
  if (allowed.has(tool.name) && tool.disabled !== true) return undefined;
  const id = ids.next("perm");
  const answer = answers.wait("permission", id, scope.signal);
  scope.emit({ type: "permission.asked", id, call, name: tool.name, input: tool.input, ...scope.parent });
  const { reply, message } = await answer;
  if (reply === "reject") return message ?? `The call of ${tool.name} was rejected.`;
  if (reply === "always") allowed.add(tool.name);
  return undefined;
}
