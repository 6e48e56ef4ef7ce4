import type { Calling, Scene } from "./native.ts";

/** Clients with many tools hold some back until the model searches for them. */
export function searchFor(
  { names, words }: { names: readonly string[]; words: string },
  { ask }: Scene,
): Calling | undefined {
  const search = ask.tools.find(({ name }) => name === "ToolSearch" || name === "tool_search");
  if (search?.name === "ToolSearch")
    return { name: "ToolSearch", input: { query: `select:${names.join(",")}`, max_results: 5 } };
  if (search === undefined) return undefined;
  return { name: "tool_search", input: { query: words, limit: 8 }, search: true };
}
