export {
  createDockerProvider,
  DEFAULT_IMAGE,
  type DockerProvider,
  type DockerProviderOptions,
} from "./provider.ts";
