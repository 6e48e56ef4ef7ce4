import type { PermissionMode } from "../contract/index.ts";
import type { Pending } from "./fold.ts";

const EDITING = new Set(["write", "edit", "patch", "delete"]);

/** Who answers a permission when nobody needs to be asked; undefined where somebody does. Pure. */
export function policyAnswer(mode: PermissionMode | undefined, pending: Pending): string | undefined {
  if (mode === "bypass") return "policy:bypass";
  if (mode === "acceptEdits" && EDITING.has(pending.prompt)) return "policy:acceptEdits";
  return undefined;
}
