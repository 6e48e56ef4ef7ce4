export { createScriptedModel } from "./server.ts";
export type { ModelRequest, ScriptedModel, ScriptedModelOptions } from "./server.ts";
