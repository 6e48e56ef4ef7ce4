import { describe, expect, it } from "vitest";
import { toToolUse } from "../../../src/dialects/anthropic/tool-calls.ts";

describe("a native tool call in the toolset's terms", () => {
  it.each([
    ["shell", { command: "ls" }, "bash", { command: "ls" }],
    ["Bash", { command: "ls", timeout: 5 }, "bash", { command: "ls", timeout_ms: 5 }],
    ["local_shell", { command: ["ls", "-l"] }, "bash", { command: "ls -l" }],
    ["write", { path: "a", content: "x" }, "write", { file_path: "a", content: "x" }],
    ["Write", { file_path: "a", content: "x" }, "write", { file_path: "a", content: "x" }],
    ["edit", { path: "a", old: "x", new: "y" }, "edit", { file_path: "a", old_string: "x", new_string: "y" }],
    [
      "edit",
      { filePath: "a", oldString: "x", newString: "y", replaceAll: true },
      "edit",
      { file_path: "a", old_string: "x", new_string: "y", replace_all: true },
    ],
    ["read_file", { absolute_path: "/a" }, "read", { file_path: "/a" }],
    ["Grep", { pattern: "x", path: "src" }, "grep", { pattern: "x", path: "src" }],
    ["WebSearch", { query: "x" }, "web_search", { query: "x" }],
    ["NotebookEdit", { notebook_path: "a" }, "NotebookEdit", { notebook_path: "a" }],
    ["odd", "text", "odd", { value: "text" }],
    ["odd", undefined, "odd", {}],
  ])("%s %j is %s %j", (name, input, tool, fields) => {
    expect(toToolUse(name, input)).toEqual({ kind: "toolset", name: tool, input: fields });
  });

  it("belongs to its server if it is an MCP tool", () => {
    expect(toToolUse("mcp__docs__find_page", { q: 1 })).toEqual({
      kind: "mcp",
      server: "docs",
      name: "find_page",
      input: { q: 1 },
    });
  });

  it("has the application's own name and input if the tool server delivered it", () => {
    expect(toToolUse("mcp__sluice__bash", { command: ["a"] })).toEqual({
      kind: "toolset",
      name: "bash",
      input: { command: ["a"] },
    });
  });
});
