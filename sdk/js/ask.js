// Calls a function of the host, and throws the status number of a refusal, which the engine wraps.
export const ask = (host, ...given) => {
  try {
    return host(...given);
  } catch (error) {
    throw error?.payload ?? error;
  }
};
