import type { Scope } from "../agent.ts";
import { Halted } from "../halt.ts";
import type { AgentFile, AgentLine } from "../protocol.ts";

/** A call that is announced and does not run yet. */
interface Called {
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

/** Runs a call. If the tool returns a text for the agent to say, resolves to that text. */
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
    if (tool.runsInApplication !== true) scope.emit({ type: "tool.started", id });
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

/** Asks for permission unless the tool is allowed. Resolves to the reason of a rejection. */
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

/** A tool with the input of one call. */
export interface Tool {
  readonly name: string;
  readonly input: unknown;
  /** Whether the call asks for permission. */
  readonly asks: boolean;
  /**
   * Whether the session denies the tool. It then asks at each call, even after the reply `always`, and the session's
   * policy rejects it.
   */
  readonly disabled?: boolean;
  /** Whether the application runs the tool. The agent then reports no start. */
  readonly runsInApplication?: boolean;
  /** The call's effect on a file, if it is known in advance. */
  file?(): AgentFile | undefined;
  run(execution: Execution): Promise<ToolOutcome>;
}

export interface Execution {
  readonly id: string;
  readonly scope: Scope;
  readonly signal: AbortSignal;
  /** Reports output; resolves when the reader has taken it. */
  stream(text: string): Promise<void>;
}

/** The end of a tool call. */
export interface ToolOutcome {
  /** The whole output; undefined if it was streamed. */
  readonly output?: string;
  readonly failed?: boolean;
  readonly exitCode?: number;
  readonly file?: AgentFile;
  /** A text that the agent says after the call. */
  readonly echo?: string;
}
