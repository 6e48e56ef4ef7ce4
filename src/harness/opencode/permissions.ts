import type { PermissionMode } from "../../contract/index.ts";

type Action = "allow" | "ask" | "deny";

/** Left to itself, OpenCode asks only before it leaves its folder. */
const ASKING: Readonly<Record<string, Action>> = {
  bash: "ask",
  edit: "ask",
  webfetch: "ask",
  websearch: "ask",
};

/** Which of its tools ask first. In plan mode its own agent denies the edits. */
export function toPermissions(mode: PermissionMode | undefined): Readonly<Record<string, Action>> {
  switch (mode) {
    case "bypass":
      return { "*": "allow", external_directory: "allow", doom_loop: "allow" };
    case "acceptEdits":
      return { ...ASKING, edit: "allow" };
    case "plan": {
      const { edit: _, ...rest } = ASKING;
      return rest;
    }
    default:
      return ASKING;
  }
}
