"stuck"
