/** Tools that the tests' agents have. */
export const TOOLSET = { type: "agent_toolset_20260401" };
export const ASKING = { ...TOOLSET, default_config: { permission_policy: { type: "always_ask" } } };
export const WEATHER = {
  type: "custom",
  name: "weather",
  description: "Tells the weather of a city.",
  input_schema: { type: "object", properties: { city: { type: "string" } } },
};
