export { createScriptedModel } from "./server.ts";
export type { ModelRequest } from "./exchange.ts";
export type { ScriptedModel, ScriptedModelOptions } from "./server.ts";
