import { toFields, toText } from "./fields.ts";
import { isPlanTool } from "./plan.ts";
import { EXIT_PLAN_MODE } from "./plan-approval.ts";
import type { ClaudeState, KeptInput } from "./state.ts";

/** Keeps what the call's result will not say again. */
export function keepInput(
  state: ClaudeState,
  call: { id: string; name: string; input: unknown },
): ClaudeState {
  const kept = toKept(call.name, call.input);
  return kept === undefined ? state : { ...state, inputs: { ...state.inputs, [call.id]: kept } };
}

function toKept(name: string, input: unknown): KeptInput | undefined {
  if (isPlanTool(name) || name === EXIT_PLAN_MODE) return { value: input };
  const fields = toFields(input);
  const path = toText(fields["file_path"] ?? fields["notebook_path"]);
  return path === "" ? undefined : { path };
}
