import { describe, expect, it } from "vitest";
import { toPermissions } from "../../../src/harness/claude/launch.ts";

describe("Claude's own permission rules", () => {
  it("are none where nothing has to be asked for", () => {
    expect(toPermissions(undefined)).toEqual({});
    expect(toPermissions({ rules: { "*": "allow", mcp__docs__find: "allow" } })).toEqual({});
  });

  it("name each tool that is asked for or switched off, and none twice", () => {
    expect(toPermissions({ rules: { "*": "ask", read: "allow", bash: "deny" } })).toEqual({
      permissions: {
        ask: ["Write", "Edit", "NotebookEdit", "Glob", "Grep", "WebFetch", "WebSearch"],
        deny: ["Bash"],
      },
    });
  });

  it("name whole servers, unless one that is switched off has a tool that is not", () => {
    const rules = { "mcp__docs__*": "ask", "mcp__web__*": "deny", mcp__docs__drop: "deny" } as const;
    expect(toPermissions({ rules })).toEqual({
      permissions: { ask: ["mcp__docs"], deny: ["mcp__web", "mcp__docs__drop"] },
    });
    expect(toPermissions({ rules: { ...rules, mcp__web__get: "allow" } })).toEqual({
      permissions: { ask: ["mcp__docs", "mcp__web"], deny: ["mcp__docs__drop"] },
    });
  });
});
